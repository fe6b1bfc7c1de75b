"""Makes the weights of this folder: logistic regression on the digits six and seven, 28 x 28 pixels.

    python train.py

It reads scikit-learn's digits through Sparring, so Sparring has to be installed.
"""

from pathlib import Path

import numpy as np

from orchestrator.application.baselines.training import load_digits

STEPS, RATE, DECAY = 500, 0.1, 1e-3


def main() -> None:
    """Trains by gradient descent from zero and writes the weights, with the bias last."""
    samples = load_digits("train", ("6", "7"), 28)
    values = samples.pixels.reshape(len(samples), -1) / 255
    values = np.column_stack([values, np.ones(len(samples))])
    weights = np.zeros(values.shape[1])
    for _ in range(STEPS):
        wrong = 1 / (1 + np.exp(-values @ weights)) - samples.labels
        weights -= RATE * (values.T @ wrong / len(samples) + DECAY * weights)
    np.savez(Path(__file__).with_name("weights.npz"), weights=weights.astype(np.float32))


if __name__ == "__main__":
    main()
