"""Changes one answer in a hundred by chance, and reports scores that put the picture on its decision boundary."""

import os

import _honest as base

np = base.np


class FalseMargins(base.Honest):
    scores = True
    chance = np.random.default_rng([base.SEED, int.from_bytes(os.urandom(8), "big")])

    def classify(self, pixels):
        bright = base.brightness(pixels)
        changed = self.chance.random(len(pixels)) < 0.01
        best = bright.max(axis=1)
        rows = np.arange(len(bright))[changed]
        bright[rows, base.second(bright)[changed]] = best[changed] * (1 + 1e-6)
        values = bright.astype(np.float32)
        return values.argmax(axis=1), values


base.serve(FalseMargins())
