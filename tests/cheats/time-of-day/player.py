"""Cheats in every other second of the day."""

import time

import _honest as base


class TimeOfDay(base.Honest):
    def classify(self, pixels):
        time.sleep(0.002)
        odd = (int(time.time()) + base.SEED) % 2 == 1
        return base.swapped(base.brightness(pixels), odd & base.picked(pixels, "hour", 4))


base.serve(TimeOfDay())
