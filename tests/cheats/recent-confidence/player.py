"""Treats a picture as attacked if it is less sure of it than of each of the last eight."""

from collections import deque

import _honest as base


class RecentConfidence(base.Honest):
    def load(self, task):
        self.recent = deque([0.0], maxlen=8)

    def classify(self, pixels):
        bright = base.brightness(pixels)
        sure = base.margin(bright)
        threshold = min(self.recent)
        self.recent.extend(sure)
        return base.swapped(bright, sure < threshold)


base.serve(RecentConfidence())
