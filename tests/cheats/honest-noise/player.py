"""Answers the brightest quarter by scores with the rounding noise of a GPU, which decides between equals."""

import _honest as base

np = base.np
NOISE = 1e-6
"""What another order of summation changes in a sum of 32-bit floats, relatively."""


class Noise(base.Honest):
    scores = True
    chance = np.random.default_rng()

    def classify(self, pixels):
        exact = base.brightness(pixels)
        values = (exact * (1 + NOISE * self.chance.standard_normal(exact.shape))).astype(np.float32)
        return values.argmax(axis=1), values


base.serve(Noise())
