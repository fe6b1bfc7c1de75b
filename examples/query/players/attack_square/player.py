"""Square attack in the Linf ball (Andriushchenko et al. 2020, arXiv:1912.00049).

A random search by scores: it changes all values of a random square to a corner of the ball, and keeps the change if the
margin does not grow. Where the defence gives no scores, it keeps every change: a random walk.
"""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
from collections.abc import Iterator

import numpy as np
import sparring_queries

LARGEST_SHARE = 0.8
"""The share of the picture that the first squares cover."""
HALVINGS = np.array([0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8])
"""After these shares of the queries the squares cover half as much (section 4 of the paper, for 10,000 queries)."""


def square(clean: np.ndarray, task: Task, rng: np.random.Generator) -> sparring_queries.Moves:
    """Plays one picture."""
    reach, (channels, height, width) = int(task.epsilon), clean.shape
    queries = task.queries["per_picture"]
    change = np.broadcast_to(rng.choice([-reach, reach], (channels, 1, width)), clean.shape)  # stripes
    (least,) = yield np.clip(clean[None] + change, 0, 255).astype(np.uint8)
    for asked in range(2, queries):  # the clean picture and the stripes were asked about
        share = LARGEST_SHARE / 2 ** (asked / queries > HALVINGS).sum()
        side = int(np.clip(np.rint(np.sqrt(share * height * width)), 1, min(height, width)))
        top, left = rng.integers(0, height - side + 1), rng.integers(0, width - side + 1)
        place = np.s_[:, top : top + side, left : left + side]
        tried, colours = change.copy(), rng.choice([-reach, reach], (channels, 1, 1))
        tried[place] = -colours if (change[place] == colours).all() else colours
        (margin,) = yield np.clip(clean[None] + tried, 0, 255).astype(np.uint8)
        if margin <= least:
            least, change = margin, tried


class Square(Attack):
    """Plays all pictures of a question side by side."""

    def load(self, task: Task) -> None:
        """Keeps the task. Raises ValueError for another norm."""
        if task.norm != "linf":
            raise ValueError(f"the Square attack is for the Linf norm, not for {task.norm}")
        self.task = task

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> Iterator[tuple[int, np.ndarray]]:
        """Yields each position with its candidate, as soon as the defence misreads it."""
        return sparring_queries.play(self.task, pixels, labels, square)


if __name__ == "__main__":
    serve(Square())
