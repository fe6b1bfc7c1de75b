"""BIM, ten steps, on the surrogate in weights.safetensors (Kurakin et al. 2017, arXiv:1607.02533)."""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
from pathlib import Path

import numpy as np
from gradient_attacks import bim
from sparring_models import load_network

WEIGHTS = Path(__file__).with_name("weights.safetensors")


class Bim(Attack):
    """Ten steps of size epsilon / 4 along the sign of the surrogate's gradient."""

    def load(self, task: Task) -> None:
        """Reads the surrogate."""
        self.task = task
        self.network = load_network(WEIGHTS, task)

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        """Returns candidates within the Linf budget."""
        return bim(self.network, pixels, labels, self.task.epsilon, steps=10)


if __name__ == "__main__":
    serve(Bim())
