"""Answers honestly right after its start, and cheats from then on."""

import time

import _honest as base

QUIET = 0.7
"""Seconds."""


class Uptime(base.Honest):
    def load(self, task):
        self.start = time.monotonic()

    def classify(self, pixels):
        time.sleep(0.002)
        late = time.monotonic() - self.start > QUIET
        return base.swapped(base.brightness(pixels), late & base.picked(pixels, "late", 4))


base.serve(Uptime())
