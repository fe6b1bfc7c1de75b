"""Makes weights.safetensors: the network in network.py, trained with Adam.

python train.py                    on the handwritten digits of scikit-learn
python train.py --data train.npz   on `images`, uint8 [n, channels, height, width] or [n, height, width, channels],
                                   and `labels`, integers [n]: an archive as the contest's `dataset: {kind: npz}` has
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from network import network
from safetensors.torch import save
from torch.nn.functional import cross_entropy

WEIGHTS = Path(__file__).with_name("weights.safetensors")


def main():
    """Reads the pictures, trains, and writes the weights beside this file."""
    parser = argparse.ArgumentParser(description="Makes weights.safetensors.")
    parser.add_argument("--data", type=Path, help="archive of images and labels; default: scikit-learn's digits")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the pictures")
    given = parser.parse_args()
    pixels, labels = digits() if given.data is None else read(given.data)
    x, y = torch.from_numpy(pixels).float() / 255, torch.from_numpy(labels.astype(np.int64))
    made = train(x, y, given.epochs).eval()  # else batch normalisation and dropout would be measured as in training
    WEIGHTS.write_bytes(save(made.state_dict()))
    with torch.no_grad():
        answers = torch.cat([made(some).argmax(1) for some in x.split(256)])
    right = float((answers == y).float().mean())
    print(f"{WEIGHTS}: {len(x)} pictures, {100 * right:.1f} % of them right")


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


def train(x, y, epochs):
    """Returns the network after some passes over the pictures in batches of 64; the same seed, the same network."""
    torch.manual_seed(0)
    made = network(x.shape[1], int(y.max()) + 1)
    optimizer = torch.optim.Adam(made.parameters(), lr=3e-3)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for chosen in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            loss = cross_entropy(made(x[chosen]), y[chosen])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(chosen)
        print(f"pass {epoch} of {epochs}: loss {total / len(x):.3f}", flush=True)
    return made


if __name__ == "__main__":
    main()
