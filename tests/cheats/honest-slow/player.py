"""Answers the brightest quarter, each time after another while."""

import time
from random import SystemRandom

import _honest as base

chance = SystemRandom()


class Slow(base.Honest):
    def classify(self, pixels):
        time.sleep(chance.uniform(0, 0.006))
        return super().classify(pixels)


base.serve(Slow())
