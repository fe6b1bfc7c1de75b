"""Makes model.npz: softmax regression by gradient descent, in NumPy.

python train.py                    on the handwritten digits of scikit-learn
python train.py --data train.npz   on `images`, uint8 [n, channels, height, width] or [n, height, width, channels],
                                   and `labels`, integers [n]: an archive as the contest's `dataset: {kind: npz}` has
"""

import argparse
from pathlib import Path

import numpy as np

MODEL = Path(__file__).with_name("model.npz")


def main():
    """Reads the pictures, trains, and writes the model beside this file."""
    parser = argparse.ArgumentParser(description="Makes model.npz.")
    parser.add_argument("--data", type=Path, help="archive of images and labels; default: scikit-learn's digits")
    chosen = parser.parse_args().data
    pixels, labels = digits() if chosen is None else read(chosen)
    weights, biases, right = train(pixels.reshape(len(pixels), -1) / np.float32(255), labels)
    np.savez(MODEL, weights=weights, biases=biases)
    print(f"{MODEL}: {len(pixels)} pictures, {100 * right:.1f} % of them right")


def read(path):
    """Returns the pictures of an archive, uint8 [n, channels, height, width], and their labels."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            pixels, labels = archive["images" if "images" in archive else "pixels"], archive["labels"]
    except (OSError, KeyError, ValueError) as error:
        raise SystemExit(f"{path} is no archive of images and labels: {error}") from None
    if pixels.dtype != np.uint8:
        raise SystemExit(f"{path}: images are {pixels.dtype}; make them uint8, from 0 to 255")
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels
    return pixels if pixels.shape[1] in (1, 3) else np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)), labels


def digits():
    """Returns the 1297 training digits; the 500 that Sparring's tasks play with are left out."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    values, labels = load_digits(return_X_y=True)
    values, _, labels, _ = train_test_split(values, labels, test_size=500, random_state=0, stratify=labels)
    return np.rint(values * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8), labels


def train(flat, labels, steps=300, rate=0.5):
    """Returns weights [classes, values], biases, and the share of the pictures that they get right."""
    truth = np.eye(int(labels.max()) + 1, dtype=np.float32)[labels]
    weights, biases = np.zeros((truth.shape[1], flat.shape[1]), np.float32), np.zeros(truth.shape[1], np.float32)
    for _ in range(steps):
        scores = flat @ weights.T + biases
        likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        error = (likely / likely.sum(axis=1, keepdims=True) - truth) / len(flat)
        weights -= rate * (error.T @ flat)
        biases -= rate * error.sum(axis=0)
    return weights, biases, float(((flat @ weights.T + biases).argmax(axis=1) == labels).mean())


if __name__ == "__main__":
    main()
