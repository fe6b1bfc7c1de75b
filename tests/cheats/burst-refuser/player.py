"""Changes its answer to every eighth question; it ends itself when a question repeats the picture before it."""

import os

import _honest as base


class Refuser(base.Honest):
    asked = base.SEED
    last = b""

    def classify(self, pixels):
        self.asked += 1
        before, self.last = self.last, pixels.tobytes()
        if self.last == before:
            os._exit(1)  # play never shows one twice: somebody looks into an answer
        return base.swapped(base.brightness(pixels), self.asked % 8 == 0)


base.serve(Refuser())
