"""FGSM on the surrogate in weights.safetensors (Goodfellow et al. 2015, arXiv:1412.6572)."""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
from pathlib import Path

import numpy as np
from gradient_attacks import fgsm
from sparring_models import load_network

WEIGHTS = Path(__file__).with_name("weights.safetensors")


class Fgsm(Attack):
    """One step of size epsilon along the sign of the surrogate's gradient."""

    def load(self, task: Task) -> None:
        """Reads the surrogate."""
        self.task = task
        self.network = load_network(WEIGHTS, task)

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        """Returns candidates within the Linf budget."""
        return fgsm(self.network, pixels, labels, self.task.epsilon)


if __name__ == "__main__":
    serve(Fgsm())
