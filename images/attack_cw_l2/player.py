"""Carlini-Wagner L2 on the surrogate in weights.safetensors (Carlini, Wagner 2017, arXiv:1608.04644), by foolbox.

It looks for the smallest Euclidean change and knows nothing of an Linf budget, so most of its candidates leave it. It
is kept for that: under rule A14 it must be seen to be penalised.
"""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
import os
from pathlib import Path

import numpy as np

# foolbox imports GitPython, which fails where there is no git program, unless it is told to be quiet.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import foolbox
import torch
from sparring_models import device, load_network, pictures

WEIGHTS = Path(__file__).with_name("weights.safetensors")

# 500 digits take three seconds on one core; more steps find smaller changes.
SEARCH_STEPS = 4
STEPS = 50
STEP_SIZE = 0.05
INITIAL_CONST = 3.0


class CarliniWagner(Attack):
    """Adam on the change's length plus a weighted logit margin; the weight is found by binary search."""

    def load(self, task: Task) -> None:
        """Reads the surrogate."""
        self.network = load_network(WEIGHTS, task)
        self.model = foolbox.PyTorchModel(self.network, bounds=(0, 1), device=device())
        self.attack = foolbox.attacks.L2CarliniWagnerAttack(
            binary_search_steps=SEARCH_STEPS, steps=STEPS, stepsize=STEP_SIZE, initial_const=INITIAL_CONST
        )

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        """Returns candidates that the surrogate misreads, near in L2; hidden labels are predicted."""
        clean = pictures(pixels)
        target = self.network(clean).argmax(1) if labels is None else torch.from_numpy(labels).to(device())
        made = self.attack.run(self.model, clean, foolbox.criteria.Misclassification(target))
        return (made * 255).round().clamp(0, 255).cpu().numpy().astype(np.uint8)


if __name__ == "__main__":
    serve(CarliniWagner())
