"""RayS in the Linf norm (Chen and Gu 2020, arXiv:2006.12792): by labels alone, and without parameters.

It looks for the vector of signs along which the nearest misread picture lies. It flips the signs of blocks of values,
first large and then small ones, and keeps what brings that picture nearer. Distances are whole steps of 1/255.
"""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
from collections.abc import Generator, Iterator
from itertools import count

import numpy as np
import sparring_queries

FARTHEST = 255


def rays(clean: np.ndarray, task: Task, rng: np.random.Generator) -> sparring_queries.Moves:  # noqa: ARG001  no chance
    """Plays one picture."""
    signs, radius = np.full(clean.size, -1), FARTHEST + 1
    for level in count():
        blocks = min(2 ** (level % (int(np.ceil(np.log2(clean.size))) + 1)), clean.size)
        for block in np.array_split(np.arange(clean.size), blocks):
            tried = signs.copy()
            tried[block] *= -1
            if (yield from _misread(clean, tried, radius - 1)):
                signs, radius = tried, (yield from _nearest(clean, tried, int(task.epsilon) - 1, radius - 1))


def _nearest(clean: np.ndarray, signs: np.ndarray, low: int, high: int) -> Generator:
    """Returns the smallest radius above `low` that is misread, by bisection; `high` is misread."""
    while high - low > 1:
        middle = (low + high) // 2
        if (yield from _misread(clean, signs, middle)):
            high = middle
        else:
            low = middle
    return high


def _misread(clean: np.ndarray, signs: np.ndarray, radius: int) -> Generator:
    """Returns whether the picture at a distance is misread."""
    (margin,) = yield np.clip(clean[None] + radius * signs.reshape(clean.shape), 0, 255).astype(np.uint8)
    return margin < 0


class Rays(Attack):
    """Plays all pictures of a question side by side."""

    def load(self, task: Task) -> None:
        """Keeps the task. Raises ValueError for another norm."""
        if task.norm != "linf":
            raise ValueError(f"RayS is for the Linf norm, not for {task.norm}")
        self.task = task

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> Iterator[tuple[int, np.ndarray]]:
        """Yields each position with its candidate, as soon as the defence misreads it."""
        return sparring_queries.play(self.task, pixels, labels, rays, want=sparring_queries.DECISION)


if __name__ == "__main__":
    serve(Rays())
