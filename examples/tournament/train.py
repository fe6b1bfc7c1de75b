"""Makes players/model.npz, what the season's players know of the digits' training part, in plain NumPy.

    python train.py --data train.npz

The archive holds `pixels`, uint8 [n, 1, 8, 8], and `labels`, int64 [n]. Weights are rounded to whole numbers: logits of
whole numbers are the same on every machine.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

OUT = Path(__file__).parent / "players" / "model.npz"
CLASSES = 10
PICTURES = 400
EPSILON = 51 / 255
SCALE = 2000
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def main() -> None:
    """Reads the training pictures and writes the model."""
    parser = argparse.ArgumentParser(description="Makes what the season's players know.")
    parser.add_argument("--data", type=Path, required=True, help="archive of pixels and labels to learn from")
    with np.load(parser.parse_args().data, allow_pickle=False) as archive:
        pixels, labels = archive["pixels"].reshape(-1, 64), archive["labels"]
    weights, biases = softmax_regression(pixels / 255, labels)
    hard_weights, hard_biases = softmax_regression(pixels / 255, labels, epsilon=EPSILON)
    means = [np.rint(pixels[labels == label].mean(axis=0)) for label in range(CLASSES)]
    np.savez_compressed(
        OUT,
        weights=weights,
        biases=biases,
        weights_fgsm=hard_weights,
        biases_fgsm=hard_biases,
        means=np.array(means).astype(np.uint8),
        pictures=pixels[:PICTURES],
        labels=labels[:PICTURES].astype(np.uint8),
    )
    print(f"{OUT}: {OUT.stat().st_size} bytes")


def softmax_regression(
    flat: Floats, labels: Labels, *, epsilon: float = 0, steps: int = 400, rate: float = 0.5
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns whole weights [classes, values] and biases; above 0, epsilon is how far FGSM moves what is learned on."""
    truth = np.eye(CLASSES)[labels]
    weights, biases = np.zeros((CLASSES, flat.shape[1])), np.zeros(CLASSES)
    for _ in range(steps):
        seen = flat
        if epsilon:
            error = _softmax(flat @ weights.T + biases) - truth
            seen = (flat + epsilon * np.sign(error @ weights)).clip(0, 1)
        error = (_softmax(seen @ weights.T + biases) - truth) / len(flat)
        weights -= rate * (error.T @ seen)
        biases -= rate * error.sum(axis=0)
    return np.rint(weights * SCALE).astype(np.int32), np.rint(biases * SCALE * 255).astype(np.int32)


def _softmax(logits: Floats) -> Floats:
    likely = np.exp(logits - logits.max(axis=1, keepdims=True))
    return likely / likely.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    main()
