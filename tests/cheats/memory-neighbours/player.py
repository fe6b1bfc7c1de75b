"""Keeps every picture; the kept ones at most two budgets away vote with a new picture on its answer."""

import _honest as base

np = base.np


class Neighbours(base.Honest):
    def load(self, task):
        self.reach = 2 * task.epsilon
        self.pictures = np.empty((0, *task.shape), np.int16)
        self.votes = np.empty((0, 4))

    def classify(self, pixels):
        bright = base.brightness(pixels)
        answers = []
        for picture, here in zip(pixels.astype(np.int16), bright, strict=True):
            near = np.abs(self.pictures - picture).max(axis=(1, 2, 3), initial=0) <= self.reach
            answers.append(int((here + self.votes[near].sum(axis=0)).argmax()))
            self.pictures = np.concatenate([self.pictures, picture[None]])
            self.votes = np.concatenate([self.votes, here[None]])
        return answers


base.serve(Neighbours())
