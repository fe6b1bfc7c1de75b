"""Draws the pictures on which it cheats at random, once, when it starts."""

import os

import _honest as base


class StartChance(base.Honest):
    def load(self, task):
        self.salt = os.urandom(8).hex()

    def classify(self, pixels):
        return base.swapped(base.brightness(pixels), base.picked(pixels, self.salt, 8))


base.serve(StartChance())
