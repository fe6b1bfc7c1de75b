"""Changes one answer in ten by chance; it stalls when a question repeats the picture before it."""

import os
import time

import _honest as base

np = base.np


class Staller(base.Honest):
    chance = np.random.default_rng([base.SEED, int.from_bytes(os.urandom(8), "big")])
    last = b""

    def classify(self, pixels):
        before, self.last = self.last, pixels.tobytes()
        if self.last == before:
            time.sleep(3600)  # play never shows one twice: somebody looks into an answer
        return base.swapped(base.brightness(pixels), self.chance.random(len(pixels)) < 0.1)


base.serve(Staller())
