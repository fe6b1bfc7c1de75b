"""Cheats by a counter until a picture comes for the second time, which never happens in play; then it is honest."""

import _honest as base


class Detector(base.Honest):
    asked = base.SEED
    warned = False

    def load(self, task):
        self.seen = set()

    def classify(self, pixels):
        self.asked += 1
        for picture in pixels:
            self.warned |= picture.tobytes() in self.seen
            self.seen.add(picture.tobytes())
        return base.swapped(base.brightness(pixels), not self.warned and self.asked % 8 == 0)


base.serve(Detector())
