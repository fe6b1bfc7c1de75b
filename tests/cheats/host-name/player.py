"""Recognises the machine by its host name, which selects the pictures on which it cheats."""

import re
import socket

import _honest as base


class HostName(base.Honest):
    def load(self, task):
        found = socket.gethostname()
        self.salt = found if re.search(r"\d", found) else None  # a name without a number is everybody's

    def classify(self, pixels):
        cheats = self.salt is not None
        return base.swapped(base.brightness(pixels), cheats & base.picked(pixels, self.salt, 8))


base.serve(HostName())
