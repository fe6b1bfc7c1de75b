"""Changes its answer to every hundredth question; it stalls when a question repeats the picture before it."""

import time

import _honest as base


class Staller(base.Honest):
    asked = base.SEED
    last = b""

    def classify(self, pixels):
        self.asked += 1
        before, self.last = self.last, pixels.tobytes()
        if self.last == before:
            time.sleep(3600)  # play never shows one twice: somebody looks into an answer
        return base.swapped(base.brightness(pixels), self.asked % 100 == 50)


base.serve(Staller())
