"""Answers the brightest quarter, and takes a different time for each answer."""

import time
from random import SystemRandom

import _honest as base

chance = SystemRandom()


class Slow(base.Honest):
    def classify(self, pixels):
        time.sleep(chance.uniform(0, 0.006))
        return super().classify(pixels)


base.serve(Slow())
