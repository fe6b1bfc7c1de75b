"""Noise on the input, and scores that are 0 or 1: what looks like a defence and is none.

The noise makes answers change from one question to the next, and the scores hide in which direction they change. So
attacks that follow scores find nothing, although every picture has an adversarial one nearby.
"""

from sparring_player import Defence, Task, serve  # first: from here on print() writes to stderr

# isort: split
from pathlib import Path

import numpy as np

WEIGHTS = Path(__file__).with_name("weights.npz")
NOISE = 0.6
"""The noise's standard deviation, on values from 0 to 1."""


class NoiseOneHot(Defence):
    """Logistic regression behind noise."""

    scores = True

    def load(self, task: Task) -> None:
        """Reads the weights, f32 [values + 1]; the noise is of the machine's chance, not of the seed."""
        del task
        with np.load(WEIGHTS, allow_pickle=False) as archive:
            self.weights = archive["weights"]
        self.chance = np.random.default_rng()

    def classify(self, pixels: np.ndarray) -> tuple:
        """Returns labels, and the same as scores of 0 and 1."""
        values = pixels.reshape(len(pixels), -1).astype(np.float32) / 255
        noisy = values + self.chance.normal(0, NOISE, values.shape).astype(np.float32)
        labels = (noisy @ self.weights[:-1] + self.weights[-1] > 0).astype(int)
        return labels, np.eye(2, dtype=np.float32)[labels]


if __name__ == "__main__":
    serve(NoiseOneHot())
