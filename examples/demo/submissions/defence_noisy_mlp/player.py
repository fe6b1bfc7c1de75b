"""A small network of two layers in plain NumPy, trained on noisy pictures.

While it learned, every value was moved by 0.3 up or down by the toss of a coin; it answers without noise, so the same
picture always gets the same label.
"""

from sparring_player import Defence, Task, serve  # first: from here on print() writes to stderr

# isort: split
from pathlib import Path

import numpy as np

WEIGHTS = Path(__file__).with_name("weights.npz")


class NoisyMlp(Defence):
    """64 values, one hidden layer, ten logits."""

    scores = True

    def load(self, task: Task) -> None:  # noqa: ARG002  the seam
        """Reads the two layers, float32."""
        with np.load(WEIGHTS, allow_pickle=False) as archive:
            self.layers = [archive[name] for name in ("hidden", "hidden_bias", "out", "out_bias")]

    def classify(self, pixels: np.ndarray) -> tuple:
        """Returns labels, and logits as scores."""
        hidden, hidden_bias, out, out_bias = self.layers
        flat = pixels.reshape(len(pixels), -1).astype(np.float32) / 255
        logits = np.maximum(flat @ hidden + hidden_bias, 0) @ out + out_bias
        return logits.argmax(axis=1), logits


if __name__ == "__main__":
    serve(NoisyMlp())
