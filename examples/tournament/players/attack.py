"""An attack in plain NumPy: each picture goes towards a target, as far as the budget lets it.

    python attack.py TARGET [SHARE]

SHARE is how much of the budget it takes; 1 by default. Pictures and steps are whole numbers, so the candidates are the
same on every machine.
"""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
import sys

import numpy as np
import targets


class Towards(Attack):
    """Moves every picture towards what one function of targets.py makes of it."""

    def __init__(self, target: str, share: str = "1") -> None:
        self.target, self.share = getattr(targets, target), int(share)

    def load(self, task: Task) -> None:
        """Keeps the task and how far to go."""
        self.task, self.reach = task, self.share * int(task.epsilon)

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        """Returns candidates within the Linf or the Euclidean budget."""
        flat = pixels.reshape(len(pixels), -1).astype(np.int64)
        way = self.target(flat, labels, self.task) - flat
        if self.task.norm == "linf":
            step = way.clip(-self.reach, self.reach)
        else:
            length = np.sqrt((way**2).sum(axis=1, keepdims=True))
            step = np.trunc(way * np.minimum(1, self.reach / np.maximum(length, 1)))
        return (flat + step).clip(0, 255).astype(np.uint8).reshape(pixels.shape)


if __name__ == "__main__":
    serve(Towards(*sys.argv[1:]))
