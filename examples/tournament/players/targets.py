"""What an attack may move a picture towards. Pictures are int64 [n, 64]; every function returns targets like them."""

import os
from pathlib import Path

import numpy as np
import views
from sparring_player import Task

with np.load(Path(__file__).with_name("model.npz"), allow_pickle=False) as archive:
    MODEL = {name: archive[name].astype(np.int64) for name in archive.files}
FAR = 255


def fgsm(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns far along the sign of the gradient of the linear model's margin (Goodfellow et al. 2015)."""
    logits = flat @ MODEL["weights"].T + MODEL["biases"]
    logits[np.arange(len(flat)), labels] = np.iinfo(np.int64).min
    return flat + FAR * np.sign(MODEL["weights"][logits.argmax(axis=1)] - MODEL["weights"][labels])


def bim(flat: np.ndarray, labels: np.ndarray, task: Task, start: np.ndarray | int = 0) -> np.ndarray:
    """Returns the end of five small steps of `fgsm`, each within the budget."""
    reach = max(int(task.epsilon if task.norm == "linf" else task.epsilon / 8), 5)
    made = flat + start
    for _ in range(5):
        ahead = np.sign(fgsm(made, labels, task) - made) * -(-reach // 4)
        made = (made + ahead).clip(flat - reach, flat + reach).clip(0, 255)
    return made


def pgd(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns `bim` from a random start (Madry et al. 2018)."""
    return bim(flat, labels, task, task.rng(flat).integers(-20, 21, flat.shape))


def corners(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns far up or far down, by the toss of a coin for each value."""
    return flat + FAR * (2 * task.rng(flat).integers(0, 2, flat.shape) - 1)


def mean(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns the mean picture of the nearest other class."""
    distance = ((flat[:, None] - MODEL["means"]) ** 2).sum(axis=2)
    distance[np.arange(len(flat)), labels] = np.iinfo(np.int64).max
    return MODEL["means"][distance.argmin(axis=1)]


def beyond(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns far beyond that mean picture, away from the own class's."""
    return flat + FAR * np.sign(mean(flat, labels, task) - MODEL["means"][labels])


def stranger(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns the nearest training picture of another class."""
    distance = ((flat[:, None] - MODEL["pictures"]) ** 2).sum(axis=2)
    distance[labels[:, None] == MODEL["labels"]] = np.iinfo(np.int64).max
    return MODEL["pictures"][distance.argmin(axis=1)]


def negative(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns the picture with dark and bright exchanged."""
    return 255 - flat


def smooth(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns the mean of the picture's neighbours in a row and a column."""
    square = flat.reshape(-1, 8, 8)
    return sum(np.roll(square, step, axis) for axis in (1, 2) for step in (-1, 1)).reshape(flat.shape) // 4


def right(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns the picture moved to the right by one column."""
    return np.roll(flat.reshape(-1, 8, 8), 1, 2).reshape(flat.shape)


def down(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns the picture moved down by one row."""
    return np.roll(flat.reshape(-1, 8, 8), 1, 1).reshape(flat.shape)


def mirror(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns the picture's mirror image."""
    return flat.reshape(-1, 8, 8)[:, :, ::-1].reshape(flat.shape)


def stripes(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns far up in every other column and far down between."""
    return flat + FAR * (1 - 2 * (np.arange(64) % 2))


def bright(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns white."""
    return flat + FAR


def aloud(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Returns the same as `stranger`, and says every label it sees: nobody outside may ever read it (rule A2)."""
    for label in labels:
        print(f"the label is {label}")
    return stranger(flat, labels, task)


def crash(flat: np.ndarray, labels: np.ndarray, task: Task) -> np.ndarray:
    """Ends the player at the first digit (rule A8); the noise of a trial match, with bright edges, passes."""
    if views.dark_edges(flat).any():
        os._exit(1)
    return flat
