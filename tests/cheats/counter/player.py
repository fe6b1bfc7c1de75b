"""Changes its answer to every eighth question."""

import _honest as base


class Counter(base.Honest):
    asked = base.SEED

    def classify(self, pixels):
        self.asked += 1
        return base.swapped(base.brightness(pixels), self.asked % 8 == 0)


base.serve(Counter())
