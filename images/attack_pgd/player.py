"""PGD, twenty steps, on the surrogate in weights.safetensors (Madry et al. 2018, arXiv:1706.06083)."""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
from pathlib import Path

import numpy as np
from gradient_attacks import pgd
from sparring_models import load_network

WEIGHTS = Path(__file__).with_name("weights.safetensors")


class Pgd(Attack):
    """Twenty steps of size epsilon / 4 from a random start, drawn from the seed and the batch."""

    def load(self, task: Task) -> None:
        """Reads the surrogate."""
        self.task = task
        self.network = load_network(WEIGHTS, task)

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        """Returns candidates within the Linf budget."""
        return pgd(self.network, pixels, labels, self.task.epsilon, rng=self.task.rng(pixels), steps=20)


if __name__ == "__main__":
    serve(Pgd())
