"""Prefers one quarter, which the position of the picture in the batch selects."""

import _honest as base

np = base.np


class BatchPosition(base.Honest):
    def classify(self, pixels):
        places = (np.arange(len(pixels)) + base.SEED) % 4
        return base.label(base.brightness(pixels) + 16 * np.eye(4)[places])


base.serve(BatchPosition())
