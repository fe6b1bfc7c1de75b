"""HopSkipJump by foolbox (Chen, Jordan and Wainwright 2020, arXiv:1904.02144), through a foolbox model that queries.

foolbox couples the pictures of a batch and does not stop at a budget. So each picture is a batch of its own, and the
model stops the attack as soon as a picture within the budget is misread. What it asks about is rounded to 8 bits.
"""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
import contextlib
import os
from collections.abc import Iterator

import numpy as np

# foolbox imports GitPython, which fails where there is no git program, unless it is told to be quiet.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import eagerpy as ep
import foolbox
from sparring_queries import PictureQueries

GRADIENT_QUERIES = 20
"""Queries for the first estimate of a gradient; the library's 100 are for budgets of thousands."""
SPREAD = 4
"""How far estimates of gradients look around a picture, in steps of 1/255 for each value: less is lost in rounding."""


class Brokered(foolbox.models.Model):
    """The defence as a model of foolbox: scores of 0 and 1 by its labels."""

    bounds = foolbox.types.Bounds(0, 1)

    def __init__(self, asked: PictureQueries, classes: int) -> None:
        self.asked, self.classes = asked, classes

    def __call__(self, inputs: object) -> object:
        """Returns float32 [k, classes] for floats from 0 to 1. Raises as `PictureQueries.labels` does."""
        values, restore = ep.astensor_(inputs)
        return restore(ep.astensor(np.eye(self.classes, dtype=np.float32)[self.asked.labels(values.numpy())]))


class HopSkipJump(Attack):
    """Plays one picture after the other, in the norm of the budget."""

    def load(self, task: Task) -> None:
        """Makes the attack. `gamma` is chosen so that what it looks at differs after rounding."""
        self.task = task
        noise = foolbox.attacks.LinearSearchBlendedUniformNoiseAttack(directions=10**9, steps=50)
        gamma = SPREAD * float(np.prod(task.shape)) ** 1.5 / task.epsilon
        self.attack = foolbox.attacks.HopSkipJumpAttack(
            init_attack=noise, initial_gradient_eval_steps=GRADIENT_QUERIES, gamma=gamma, constraint=task.norm
        )

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> Iterator[tuple[int, np.ndarray]]:
        """Yields each position with its candidate."""
        for place, clean in enumerate(pixels):
            np.random.seed(self.task.rng(clean).integers(2**32))  # noqa: NPY002  foolbox draws from it
            with PictureQueries(self.task, place, clean, None if labels is None else labels[place]) as asked:
                truth = np.array([asked.ask_clean()])
                while True:  # from another start, where the attack ends before its queries do
                    with contextlib.suppress(AssertionError):  # a start that rounding took over the border
                        self.attack.run(Brokered(asked, len(self.task.classes)), clean[None] / np.float32(255), truth)
            yield place, asked.best


if __name__ == "__main__":
    serve(HopSkipJump())
