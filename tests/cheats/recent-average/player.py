"""Compares each picture with the average of the last sixteen."""

from collections import deque

import _honest as base

np = base.np


class RecentAverage(base.Honest):
    def load(self, task):
        self.recent = deque(maxlen=16)

    def classify(self, pixels):
        bright = base.brightness(pixels)
        seen = bright - np.mean(self.recent, axis=0) if self.recent else bright
        self.recent.extend(bright)
        return base.label(seen)


base.serve(RecentAverage())
