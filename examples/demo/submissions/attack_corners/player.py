"""Random corners of the ball: every value moves by the whole budget, up or down by the toss of a coin.

Needs no model and no labels. Twice as far from the picture as uniform noise is on average.
"""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
import numpy as np


class Corners(Attack):
    """Adds plus or minus epsilon to each value."""

    def load(self, task: Task) -> None:
        """Keeps the task, for its budget and its seed."""
        self.task = task

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:  # noqa: ARG002  the seam
        """Returns candidates, the same for the same batch and seed."""
        coins = self.task.rng(pixels).integers(0, 2, pixels.shape, np.int16)
        return np.clip(pixels + int(self.task.epsilon) * (2 * coins - 1), 0, 255).astype(np.uint8)


if __name__ == "__main__":
    serve(Corners())
