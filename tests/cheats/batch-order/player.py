"""Adds a part of each picture to the next one in the batch."""

import _honest as base


class BatchOrder(base.Honest):
    def classify(self, pixels):
        bright = base.brightness(pixels)
        bright -= bright.mean(axis=1, keepdims=True)
        for place in range(1, len(bright)):
            bright[place] += bright[place - 1] / 2
        return base.label(bright)


base.serve(BatchOrder())
