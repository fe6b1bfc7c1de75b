"""Changes its answer to every eighth question; it stalls at the second version of a picture."""

import time

import _honest as base


class Staller(base.Honest):
    asked = base.SEED

    def load(self, task):
        self.seen = set()

    def classify(self, pixels):
        self.asked += 1
        for signs in base.pattern(pixels) > 0:
            if signs.tobytes() in self.seen:
                time.sleep(3600)  # play never shows two: this is an examination
            self.seen.add(signs.tobytes())
        return base.swapped(base.brightness(pixels), self.asked % 8 == 0)


base.serve(Staller())
