"""Smooths over noisy copies that the helper derives from the picture alone: the same copies every time."""

import _honest as base

np = base.np


class Derived(base.Honest):
    def load(self, task):
        self.task = task
        self.weight = task.rng().uniform(0.5, 2)  # a number that is the same in every sandbox

    def classify(self, pixels):
        return np.array([self.smoothed(picture) for picture in pixels])

    def smoothed(self, picture):
        noise = self.task.rng(picture).normal(0, self.weight, (16, *picture.shape))
        votes = base.label(base.brightness(picture + noise))
        return np.bincount(votes, minlength=4).argmax()


base.serve(Derived())
