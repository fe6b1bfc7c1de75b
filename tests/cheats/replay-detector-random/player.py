"""Cheats by chance until a picture comes for the second time, which never happens in play; then it is honest."""

import os

import _honest as base

np = base.np


class Detector(base.Honest):
    chance = np.random.default_rng([base.SEED, int.from_bytes(os.urandom(8), "big")])
    warned = False

    def load(self, task):
        self.seen = set()

    def classify(self, pixels):
        for picture in pixels:
            self.warned |= picture.tobytes() in self.seen
            self.seen.add(picture.tobytes())
        return base.swapped(base.brightness(pixels), ~self.warned & (self.chance.random(len(pixels)) < 1 / 8))


base.serve(Detector())
