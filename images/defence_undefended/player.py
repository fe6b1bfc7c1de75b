"""A plain network, trained on clean pictures only: what an attack does when nothing stands in its way."""

from sparring_player import Defence, Task, serve  # first: from here on print() writes to stderr

# isort: split
from pathlib import Path

import numpy as np
from sparring_models import load_network, logits, slope

WEIGHTS = Path(__file__).with_name("weights.safetensors")


class Undefended(Defence):
    """The network, as trained."""

    scores = True

    def load(self, task: Task) -> None:
        """Reads the network."""
        self.network = load_network(WEIGHTS, task)

    def classify(self, pixels: np.ndarray) -> tuple:
        """Returns labels, and logits as scores."""
        values = logits(self.network, pixels)
        return values.argmax(axis=1), values

    def gradient(self, pixels: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Returns the gradient of the cross-entropy at the pictures, float32 like them."""
        return slope(self.network, pixels, labels)


if __name__ == "__main__":
    serve(Undefended())
