"""Pushes each picture away from its own class's mean picture, towards the mean of the nearest other class.

No training beyond ten averages. Yields its candidates one picture at a time, so that a slow machine loses few.
"""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
from collections.abc import Iterator
from pathlib import Path

import numpy as np

MEANS = Path(__file__).with_name("means.npz")


class Meanward(Attack):
    """Moves each value by epsilon along the sign of the difference of two mean pictures."""

    def load(self, task: Task) -> None:
        """Reads the mean pictures, uint8 [classes, channels, height, width]."""
        self.reach = int(task.epsilon)
        with np.load(MEANS, allow_pickle=False) as archive:
            self.means = archive["means"].astype(np.int16)

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> Iterator[tuple[int, np.ndarray]]:
        """Yields each position with its candidate; hidden labels are guessed by the nearest mean."""
        for place, picture in enumerate(pixels):
            distance = ((self.means - picture).astype(np.float32) ** 2).sum(axis=(1, 2, 3))
            own = int(distance.argmin()) if labels is None else int(labels[place])
            distance[own] = np.inf
            direction = np.sign(self.means[int(distance.argmin())] - self.means[own])
            yield place, np.clip(picture + self.reach * direction, 0, 255).astype(np.uint8)


if __name__ == "__main__":
    serve(Meanward())
