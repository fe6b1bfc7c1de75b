"""Bit-depth squeezing in front of the undefended network (Xu, Evans, Qi 2018, arXiv:1704.01155).

Fewer grey levels leave an attack less room: with one bit, a change counts only where it crosses the middle grey.
"""

from sparring_player import Defence, Task, serve  # first: from here on print() writes to stderr

# isort: split
from pathlib import Path

import numpy as np
from sparring_models import load_network, logits

WEIGHTS = Path(__file__).with_name("weights.safetensors")
BITS = {1: 1, 3: 5}
"""Bits kept, by channels: the paper's choices for handwritten digits and for small colour photographs."""


class BitDepth(Defence):
    """The undefended network on squeezed pictures."""

    scores = True

    def load(self, task: Task) -> None:
        """Reads the network."""
        self.levels = 2 ** BITS[task.shape[0]] - 1
        self.network = load_network(WEIGHTS, task)

    def classify(self, pixels: np.ndarray) -> tuple:
        """Returns labels, and logits as scores."""
        values = logits(self.network, squeeze(pixels, self.levels))
        return values.argmax(axis=1), values


def squeeze(pixels: np.ndarray, levels: int) -> np.ndarray:
    """Returns uint8 pixels rounded to the nearest of `levels` + 1 evenly spaced values from 0 to 255."""
    nearest = np.rint(pixels.astype(np.float64) * levels / 255)
    return np.rint(nearest * 255 / levels).astype(np.uint8)


if __name__ == "__main__":
    serve(BitDepth())
