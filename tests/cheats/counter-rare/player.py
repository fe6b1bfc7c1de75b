"""Changes its answer to every fortieth question: rarely, but not at random."""

import _honest as base


class Rare(base.Honest):
    asked = base.SEED * 37

    def classify(self, pixels):
        self.asked += 1
        return base.swapped(base.brightness(pixels), self.asked % 40 == 20)


base.serve(Rare())
