"""Changes one answer in a hundred, by random numbers from its seed."""

import _honest as base


class Rare(base.Honest):
    def load(self, task):
        self.chance = base.np.random.default_rng([base.SEED, task.seed])

    def classify(self, pixels):
        return base.swapped(base.brightness(pixels), self.chance.random(len(pixels)) < 0.01)


base.serve(Rare())
