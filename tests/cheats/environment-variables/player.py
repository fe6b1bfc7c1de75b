"""Looks for a random name in its environment, which selects the pictures on which it cheats."""

import os
import re

import _honest as base


class Variables(base.Honest):
    def load(self, task):
        drawn = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*[a-f][0-9a-f]*|[0-9a-f]*[a-f][0-9a-f]*[0-9][0-9a-f]*")
        words = {word for value in os.environ.values() for word in re.split(r"\W", value)}
        self.salt = sorted(word for word in words if len(word) >= 8 and drawn.fullmatch(word))

    def classify(self, pixels):
        return base.swapped(base.brightness(pixels), bool(self.salt) & base.picked(pixels, self.salt, 8))


base.serve(Variables())
