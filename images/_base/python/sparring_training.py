"""Trains the baselines' networks; a program, used by the organizers before a contest.

    python sparring_training.py --data train.npz --architecture digits_cnn --recipe clean --out weights.safetensors

The archive holds `pixels`, uint8 [n, c, h, w], and `labels`, int64 [n]; `--test` names a second one to measure on. The
same archive, recipe and seed give the same file, bit for bit, on the same machine and library versions: one thread, on
the CPU.

Recipes: `clean` is plain cross-entropy. `fgsm` is adversarial training after Goodfellow, Shlens, Szegedy 2015
(arXiv:1412.6572): half the loss on the batch, half on its FGSM candidates for the network as it stands. `spatial` is
worst-of-10 training after Engstrom et al. 2017 (arXiv:1712.02779): each picture is turned and moved ten times at
random, by at most 30 degrees and a tenth of its size, and learned from where the network does worst. All use Adam with
a step of 0.001, batches of 64 and 30 epochs.

Standard output gets one line, a JSON document about the network. Standard error gets a line for each epoch.
"""

import argparse
import hashlib
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from sparring_models import ARCHITECTURES, be_deterministic, loss_gradient
from torch import nn
from torch.nn import functional
from torch.optim.adam import adam

LEARNING_RATE = 1e-3
BATCH = 64
EPOCHS = 30
MEASURED = 500
"""The most pictures at once when an accuracy is measured: all together would take gigabytes."""
MOVEMENTS, MAX_DEGREES, MAX_SHIFT = 10, 30.0, 0.1
"""For the recipe `spatial`: how often a picture is moved, and how far; the shift is a share of its size."""


class Data:
    """Pictures and labels from an archive, with the SHA-256 of both."""

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as archive:
            pixels, labels = archive["pixels"], archive["labels"]
        if pixels.dtype != np.uint8 or pixels.ndim != 4 or labels.shape != (len(pixels),):  # noqa: PLR2004  n, c, h, w
            raise SystemExit(
                f"{path}: expected uint8 pixels [n, c, h, w] and n labels, got {pixels.dtype} {pixels.shape}"
                f" and labels {labels.shape}"
            )
        self.shape = pixels.shape[1:]
        self.classes = int(labels.max()) + 1
        self.digest = hashlib.sha256(pixels.tobytes() + labels.astype("<i8").tobytes()).hexdigest()
        self.pictures = torch.from_numpy(pixels).float() / 255
        self.labels = torch.from_numpy(labels.astype(np.int64))


class Adam:
    """Takes the steps of `torch.optim.Adam`, bit for bit; the first use of that class imports modules for a second."""

    def __init__(self, network: nn.Module) -> None:
        self.parameters = list(network.parameters())
        self.means, self.squares = ([torch.zeros_like(each) for each in self.parameters] for _ in range(2))
        self.steps = [torch.tensor(0.0) for _ in self.parameters]

    def step(self, loss: torch.Tensor) -> None:
        """Changes the network's parameters in place, against the gradient of the loss."""
        gradients = list(torch.autograd.grad(loss, self.parameters))
        state = (self.means, self.squares, [], self.steps)
        options = {"amsgrad": False, "maximize": False, "weight_decay": 0.0}
        with torch.no_grad():
            adam(self.parameters, gradients, *state, beta1=0.9, beta2=0.999, lr=LEARNING_RATE, eps=1e-8, **options)


def train(network: nn.Module, data: Data, *, recipe: str, epsilon: float, seed: int, epochs: int = EPOCHS) -> None:
    """Fits the network to the data in place; `epsilon`, in steps of 1/255, is the `fgsm` recipe's budget."""
    movements = torch.Generator().manual_seed(seed)
    order = torch.Generator().manual_seed(seed)
    optimizer = Adam(network)
    network.train()
    for epoch in range(1, epochs + 1):
        total = 0.0
        for chosen in torch.randperm(len(data.labels), generator=order).split(BATCH):
            x, y = data.pictures[chosen], data.labels[chosen]
            if recipe == "fgsm":
                harder = (x + epsilon / 255 * loss_gradient(network, x, y).sign()).clamp(0, 1)
                loss = (functional.cross_entropy(network(x), y) + functional.cross_entropy(network(harder), y)) / 2
            else:
                x = worst_moved(network, x, y, movements) if recipe == "spatial" else x
                loss = functional.cross_entropy(network(x), y)
            optimizer.step(loss)
            total += float(loss.detach()) * len(chosen)
        print(f"epoch {epoch} of {epochs}: loss {total / len(data.labels):.3f}", file=sys.stderr, flush=True)
    network.eval()


def worst_moved(network: nn.Module, x: torch.Tensor, y: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Returns each picture in the version with the largest loss, of `MOVEMENTS` random rotations and shifts."""
    worst, largest = x, torch.full((len(x),), -torch.inf)
    for _ in range(MOVEMENTS):
        moved = functional.grid_sample(x, _random_grid(x, chance), align_corners=False)
        with torch.no_grad():
            losses = functional.cross_entropy(network(moved), y, reduction="none")
        worse = losses > largest
        worst = torch.where(worse[:, None, None, None], moved, worst)
        largest = torch.where(worse, losses, largest)
    return worst


def _random_grid(x: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Returns the sampling grid of one random rotation and shift for each picture."""
    turn, across, down = torch.rand((3, len(x)), generator=chance) * 2 - 1
    angle = turn * (math.pi * MAX_DEGREES / 180)
    shift = 2 * MAX_SHIFT  # the grid's coordinates go from -1 to 1
    rows = [angle.cos(), -angle.sin(), across * shift, angle.sin(), angle.cos(), down * shift]
    return functional.affine_grid(torch.stack(rows, 1).view(-1, 2, 3), list(x.shape), align_corners=False)


def accuracy(network: nn.Module, data: Data) -> float:
    """Returns the share of the data's pictures that the network labels correctly."""
    with torch.no_grad():
        answers = torch.cat([network(part).argmax(1) for part in data.pictures.split(MEASURED)])
    return float((answers == data.labels).double().mean())


def main() -> None:
    """Trains one network by the command line's arguments and writes its weights."""
    asked = _arguments()
    data = Data(asked.data)
    shape, architecture = ARCHITECTURES[asked.architecture]
    if data.shape != shape:
        raise SystemExit(f"{asked.data}: {asked.architecture} takes pictures of shape {shape}, these are {data.shape}")
    be_deterministic(threads=1)
    torch.manual_seed(asked.seed)
    network = architecture(data.classes)
    train(network, data, recipe=asked.recipe, epsilon=asked.epsilon, seed=asked.seed, epochs=asked.epochs)
    facts = {
        "architecture": asked.architecture,
        "recipe": asked.recipe,
        "seed": asked.seed,
        "epochs": asked.epochs,
        "data_sha256": data.digest,
        "train_accuracy": round(accuracy(network, data), 4),
    }
    if asked.recipe == "fgsm":
        facts["epsilon"] = asked.epsilon
    if asked.test is not None:
        facts["test_accuracy"] = round(accuracy(network, Data(asked.test)), 4)
    # One metadata key: safetensors does not promise an order among several, and the file must be reproducible.
    asked.out.write_bytes(save(network.state_dict(), metadata={"sparring": json.dumps(facts, sort_keys=True)}))
    print(json.dumps(facts, sort_keys=True))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains a baseline's network.")
    parser.add_argument("--data", type=Path, required=True, help="archive of pixels and labels to learn from")
    parser.add_argument("--test", type=Path, help="archive of pixels and labels to measure on")
    parser.add_argument("--architecture", choices=sorted(ARCHITECTURES), required=True)
    parser.add_argument("--recipe", choices=("clean", "fgsm", "spatial"), required=True)
    parser.add_argument("--epsilon", type=float, default=8.0, help="budget of the fgsm recipe, in steps of 1/255")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--out", type=Path, required=True, help="where to write the weights")
    return parser.parse_args()


if __name__ == "__main__":
    main()
