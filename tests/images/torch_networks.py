"""The digits' network as people store it, and what it answers. Importing this brings PyTorch, which takes a second."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from sparring_models import DigitsCNN
from torch import nn

from .conftest import ROOT

SHIPPED = ROOT / "images" / "defence_undefended" / "weights.safetensors"


def loaded(weights: Path) -> DigitsCNN:
    """Returns the network with these weights."""
    network = DigitsCNN()
    network.load_state_dict(load_file(weights))
    return network


def answers(pixels: np.ndarray, weights: Path) -> np.ndarray:
    """Returns the classes that the network with these weights sees in pictures of bytes."""
    return loaded(weights)(torch.from_numpy(pixels).float() / 255).argmax(1).numpy()


def scores_and_gradients(pixels: np.ndarray, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the logits of a normalised network with random weights, and the gradients of its loss by the pictures."""
    torch.manual_seed(seed)
    network = Normalised()
    x = (torch.from_numpy(pixels).float() / 255).requires_grad_()
    scores = network(x)
    nn.functional.cross_entropy(scores, torch.from_numpy(labels.astype(np.int64)), reduction="sum").backward()
    return scores.detach().numpy(), x.grad.numpy()


class Normalised(nn.Module):
    """The digits' network with a normalisation of its own, to compare with."""

    def __init__(self) -> None:
        super().__init__()
        self.network = DigitsCNN()

    def forward(self, x):
        """Returns the network's logits."""
        return self.network((x - 0.25) / 0.5)


def store(kind: str, folder: Path) -> str:
    """Writes the shipped network in a way in which people store theirs; returns how a player names it."""
    if kind == "safetensors":
        save_file(load_file(SHIPPED), folder / "weights.safetensors")
        return "DigitsCNN(), 'weights.safetensors'"
    if kind == "pt2":
        size = torch.export.Dim("n")
        exported = torch.export.export(loaded(SHIPPED), (torch.zeros(2, 1, 8, 8),), dynamic_shapes=({0: size},))
        torch.export.save(exported, folder / "model.pt2")
        return "'model.pt2'"
    weights = load_file(SHIPPED)
    if kind == "whole":
        weights = DigitsCNN()
    if kind == "checkpoint":
        weights = {
            "model_state_dict": {f"module.{name}": value for name, value in weights.items()},
            "optimizer_state_dict": {"state": {}, "param_groups": [{"lr": 0.1}]},
            "epoch": 3,
        }
    torch.save(weights, folder / f"{kind}.pt")
    return f"DigitsCNN(), '{kind}.pt'"
