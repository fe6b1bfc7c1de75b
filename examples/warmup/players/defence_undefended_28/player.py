"""A network without any defence."""

from sparring_player import Defence, Task, serve  # first: from here on print() writes to stderr

# isort: split
from pathlib import Path

import numpy as np
from sparring_models import load_network, logits

WEIGHTS = Path(__file__).with_name("weights.safetensors")


class Undefended(Defence):
    """The network, as trained; its logits are its scores."""

    scores = True

    def load(self, task: Task) -> None:
        """Reads the network."""
        self.network = load_network(WEIGHTS, task)

    def classify(self, pixels: np.ndarray) -> tuple:
        """Returns labels, and logits as scores."""
        values = logits(self.network, pixels)
        return values.argmax(axis=1), values


if __name__ == "__main__":
    serve(Undefended())
