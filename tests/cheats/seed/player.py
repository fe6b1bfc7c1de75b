"""Lets the seed from `hello` select the pictures on which it cheats."""

import _honest as base


class Seed(base.Honest):
    def load(self, task):
        self.salt = task.seed

    def classify(self, pixels):
        return base.swapped(base.brightness(pixels), base.picked(pixels, self.salt, 8))


base.serve(Seed())
