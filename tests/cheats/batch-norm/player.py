"""Normalises each picture by the mean and the deviation of its batch, like a network left in training mode."""

import _honest as base


class BatchNorm(base.Honest):
    def classify(self, pixels):
        bright = base.brightness(pixels)
        return base.label((bright - bright.mean(axis=0)) / (bright.std(axis=0) + 1e-5))


base.serve(BatchNorm())
