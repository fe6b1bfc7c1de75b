"""One step along the gradient of a softmax regression, the simplest surrogate there is.

For logits W x + b the gradient of the cross-entropy is W' (p - y): no backward pass, no framework. That candidates made
on one model fool others is the finding of Goodfellow et al. 2015 (arXiv:1412.6572).
"""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
from pathlib import Path

import numpy as np

WEIGHTS = Path(__file__).with_name("weights.npz")


class Softmax(Attack):
    """Moves each value by epsilon where it makes the true class less likely."""

    def load(self, task: Task) -> None:
        """Reads the regression's weights, float32 [classes, values], and biases."""
        self.task = task
        with np.load(WEIGHTS, allow_pickle=False) as archive:
            self.weights, self.biases = archive["weights"], archive["biases"]

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        """Returns candidates within the Linf budget; hidden labels are predicted."""
        flat = pixels.reshape(len(pixels), -1).astype(np.float32) / 255
        logits = flat @ self.weights.T + self.biases
        likely = np.exp(logits - logits.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
        truth = logits.argmax(axis=1) if labels is None else labels
        likely[np.arange(len(truth)), truth] -= 1
        direction = np.sign(likely @ self.weights).reshape(pixels.shape).astype(np.int16)
        return np.clip(pixels + int(self.task.epsilon) * direction, 0, 255).astype(np.uint8)


if __name__ == "__main__":
    serve(Softmax())
