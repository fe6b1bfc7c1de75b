"""Answers the brightest quarter with the rounding noise of a GPU, and reports no scores that would show it."""

import _honest as base

np = base.np
NOISE = 1e-6
"""What another order of summation changes in a sum of 32-bit floats, relatively."""


class Mute(base.Honest):
    chance = np.random.default_rng()

    def classify(self, pixels):
        exact = base.brightness(pixels)
        return base.label(exact * (1 + NOISE * self.chance.standard_normal(exact.shape)))


base.serve(Mute())
