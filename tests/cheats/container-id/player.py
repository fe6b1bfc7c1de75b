"""Reads the container's id from its mounts, which selects the pictures on which it cheats."""

import re
from pathlib import Path

import _honest as base


class ContainerId(base.Honest):
    def load(self, task):
        found = re.search(r"[0-9a-f]{64}", Path("/proc/self/mountinfo").read_text())
        self.salt = found and found[0]

    def classify(self, pixels):
        cheats = self.salt is not None
        return base.swapped(base.brightness(pixels), cheats & base.picked(pixels, self.salt, 8))


base.serve(ContainerId())
