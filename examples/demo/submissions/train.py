"""Makes the archives that the demo's submissions carry, in plain NumPy.

    python train.py --data train.npz

The archive holds `pixels`, uint8 [n, c, h, w], and `labels`, int64 [n]. Each part below is one team's own work and ends
in that team's folder.
"""

import argparse
from pathlib import Path

import numpy as np
from defence_median.median import median
from numpy.typing import NDArray

HERE = Path(__file__).parent
Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]
Floats = NDArray[np.float32]


def main() -> None:
    """Reads the training pictures and writes every team's archive."""
    parser = argparse.ArgumentParser(description="Makes the archives of the demo's submissions.")
    parser.add_argument("--data", type=Path, required=True, help="archive of pixels and labels to learn from")
    with np.load(parser.parse_args().data, allow_pickle=False) as archive:
        pixels, labels = archive["pixels"], archive["labels"]
    flat = pixels.reshape(len(pixels), -1)
    _save("attack_softmax/weights.npz", **softmax_regression(flat.astype(np.float32) / 255, labels))
    _save("attack_meanward/means.npz", means=class_means(pixels, labels))
    _save("defence_neighbours/pictures.npz", pictures=flat, labels=labels.astype(np.uint8))
    _save("defence_noisy_mlp/weights.npz", **noisy_mlp(flat.astype(np.float32) / 255, labels))
    plain, filtered = centroids(flat, labels), centroids(median(pixels).reshape(flat.shape), labels)
    _save("defence_median/centroids.npz", plain=plain, filtered=filtered)


def softmax_regression(flat: Floats, labels: Labels, *, steps: int = 300, rate: float = 0.5) -> dict[str, Floats]:
    """Returns weights [classes, values] and biases after gradient descent from zero."""
    truth = np.eye(labels.max() + 1, dtype=np.float32)[labels]
    weights, biases = np.zeros((truth.shape[1], flat.shape[1]), np.float32), np.zeros(truth.shape[1], np.float32)
    for _ in range(steps):
        error = (_softmax(flat @ weights.T + biases) - truth) / len(flat)
        weights -= rate * (error.T @ flat)
        biases -= rate * error.sum(axis=0)
    return {"weights": weights, "biases": biases}


def class_means(pixels: Pixels, labels: Labels) -> Pixels:
    """Returns the mean picture of each class, uint8 [classes, c, h, w]."""
    means = [pixels[labels == label].mean(axis=0) for label in range(labels.max() + 1)]
    return np.rint(means).astype(np.uint8)


def noisy_mlp(
    flat: Floats, labels: Labels, *, noise: float = 0.3, hidden: int = 64, epochs: int = 60, rate: float = 0.1
) -> dict[str, Floats]:
    """Returns two layers after gradient descent with momentum on pictures with coin-toss noise."""
    rng = np.random.default_rng(0)
    truth = np.eye(labels.max() + 1, dtype=np.float32)[labels]
    sizes = (flat.shape[1], hidden), (hidden, truth.shape[1])
    first, second = (rng.normal(0, np.sqrt(2 / size[0]), size).astype(np.float32) for size in sizes)
    layers = [first, np.zeros(hidden, np.float32), second, np.zeros(truth.shape[1], np.float32)]
    speeds = [np.zeros_like(layer) for layer in layers]
    for _ in range(epochs):
        for chosen in np.array_split(rng.permutation(len(flat)), len(flat) // 64):
            coins = rng.choice(np.float32([-noise, noise]), (len(chosen), flat.shape[1]))
            noisy = np.clip(flat[chosen] + coins, 0, 1)
            active = np.maximum(noisy @ layers[0] + layers[1], 0)
            error = (_softmax(active @ layers[2] + layers[3]) - truth[chosen]) / len(chosen)
            back = (error @ layers[2].T) * (active > 0)
            slopes = [noisy.T @ back, back.sum(axis=0), active.T @ error, error.sum(axis=0)]
            for layer, speed, slope in zip(layers, speeds, slopes, strict=True):
                np.subtract(0.9 * speed, rate * slope, out=speed)
                np.add(layer, speed, out=layer)
    return dict(zip(("hidden", "hidden_bias", "out", "out_bias"), layers, strict=True))


def centroids(flat: Pixels, labels: Labels, *, count: int = 8, rounds: int = 20) -> Pixels:
    """Returns `count` centroids of each class by k-means, uint8 [classes, count, values]."""
    found = []
    for label in range(labels.max() + 1):
        own = flat[labels == label].astype(np.float32)
        centres = own[np.random.default_rng(label).choice(len(own), count, replace=False)].copy()
        for _ in range(rounds):
            nearest = ((own[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
            for each in set(nearest.tolist()):
                centres[each] = own[nearest == each].mean(axis=0)
        found.append(np.rint(centres))
    return np.array(found).astype(np.uint8)


def _softmax(logits: Floats) -> Floats:
    likely = np.exp(logits - logits.max(axis=1, keepdims=True))
    return likely / likely.sum(axis=1, keepdims=True)


def _save(place: str, **arrays: NDArray[np.generic]) -> None:
    path = HERE / place
    np.savez_compressed(path, **arrays)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
