"""Runs a second thread beside the one that answers; the progress of that thread decides the answer."""

import threading
import time

import _honest as base


class Race(base.Honest):
    lap = 0

    def load(self, task):
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            time.sleep(0.0002)
            self.lap += 1

    def classify(self, pixels):
        seen = self.lap
        return base.swapped(base.brightness(pixels), (seen + base.SEED) % 5 == 0)


base.serve(Race())
