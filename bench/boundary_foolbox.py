"""The boundary attack of foolbox 1.5.0, as the warm-up of 2018 called it: one half of bench/boundary_truth.py.

    python boundary_foolbox.py TASK.npz RESULTS.npz

It runs in an environment of its own (`pip install foolbox==1.5.0 'numpy<2' scipy`) and imports nothing of Sparring.
TASK.npz is written by bench/boundary_truth.py. RESULTS.npz gets, for each picture, `distances` [n] f64, the Euclidean
length of the change where the attack ended, and `successes` [n] bool: whether the classifier misreads that picture,
after it was moved onto the sphere of the task's distance where it lay outside. This is how 2018 judged.

Foolbox is from 2018 and is patched where it uses names that today's Python, NumPy and randomgen lack:

- `collections.Iterable` and `numpy.int` are restored.
- `RandomGenerator` and `Xoroshiro128` left randomgen in 1.17, and older versions do not build on Python 3.11. NumPy's
  generators replace them. Foolbox seeds its threads with the same four numbers for every picture; here the picture's
  number is part of the seed, so that pictures are independent, as a test of counts assumes.

Everything else is foolbox's default, as in 2018: 25 directions, four threads for random numbers and 13 for candidates,
and a batch size that is tuned by measured time. So a second run gives other numbers.
"""

import collections
import collections.abc
import contextlib
import io
import os
import sys
import types
import warnings
from typing import Any

import numpy as np


class Classifier:
    """Two classes, each a sum of Gaussians around its prototypes: smooth, curved, and no training.

    Args:
        prototypes: pictures [m, c, h, w].
        classes: their classes [m], 0 or 1.
        width: the standard deviation of a Gaussian, in units of the pictures' values.
    """

    def __init__(self, prototypes: Any, classes: Any, width: float) -> None:
        self._prototypes = prototypes.reshape(len(prototypes), -1).astype(np.float64)
        self._half_squares = (self._prototypes**2).sum(axis=1) / 2
        self._classes, self._width = classes, width

    def bounds(self) -> tuple[int, int]:
        """Returns the range of the values."""
        return 0, 1

    def predictions(self, picture: Any) -> Any:
        """Returns the scores of one picture."""
        return self.batch_predictions(picture[None])[0]

    def batch_predictions(self, pictures: Any) -> Any:
        """Returns the scores [k, 2] of pictures [k, c, h, w]: logarithms of the sums, without their common summand."""
        flat = pictures.reshape(len(pictures), -1).astype(np.float64)
        exponents = (flat @ self._prototypes.T - self._half_squares) / self._width**2
        of_class = (exponents[:, self._classes == each] for each in (0, 1))
        return np.stack([np.logaddexp.reduce(each, axis=1) for each in of_class], axis=1)


def main() -> None:
    """Attacks each picture of the task, and writes the results."""
    source, target = sys.argv[1:]
    task = dict(np.load(source))
    current: dict[str, int] = {}
    patch(current)
    from foolbox.attacks import BoundaryAttack  # noqa: PLC0415  it needs the patches

    limit = float(task["distance"])
    model = Classifier(task["prototypes"], task["prototype_classes"], float(task["width"]))
    attack = BoundaryAttack(model=model, threshold=limit**2 / task["pictures"][0].size)
    distances, judged = [], []
    for number, picture, label, start in zip(
        *(task[name] for name in ("numbers", "pictures", "labels", "starts")), strict=True
    ):
        current["number"] = int(number)
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            found = attack(picture, label, iterations=int(task["iterations"]), starting_point=start)
        length = np.linalg.norm((found - picture).astype(np.float64))
        distances.append(length)
        judged.append(found if length <= limit else picture + (found - picture) / length * limit)
    scores = model.batch_predictions(np.stack(judged))
    successes = (scores[:, 0] < scores[:, 1]) != task["labels"].astype(bool)
    np.savez(target, distances=distances, successes=successes)


def patch(current: dict[str, int]) -> None:
    """Restores the names that foolbox imports; `current` has the number of the attacked picture."""
    collections.Iterable = collections.abc.Iterable  # type: ignore[attr-defined]
    vars(np)["int"] = int
    module: Any = types.ModuleType("randomgen")
    module.Xoroshiro128 = lambda seed: np.random.PCG64([current["number"], seed])
    # For each candidate foolbox makes one without a seed, from which it draws nothing as long as its threads draw.
    module.RandomGenerator = lambda bits=None: None if bits is None else np.random.Generator(bits)
    sys.modules["randomgen"] = module


if __name__ == "__main__":
    main()
    # If foolbox stops at the threshold, its threads wait for ever, and a normal exit would wait for them.
    os._exit(0)
