"""SPSA in the Linf ball (Uesato et al. 2018, arXiv:1802.05666).

It estimates the gradient of the margin from pairs of pictures on opposite sides of the current point, and follows it
with Adam. Every picture that it asks about is within the budget, so that one which is misread can be delivered.
"""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
from collections.abc import Iterator

import numpy as np
import sparring_queries

PAIRS = 4
"""Pairs of pictures in one estimate."""
PROBE, STEP = 0.1, 0.5
"""How far a probe and a step go, in shares of epsilon."""
DECAYS = 0.9, 0.999
"""Adam's, of the mean gradient and of the mean square."""


def spsa(clean: np.ndarray, task: Task, rng: np.random.Generator) -> sparring_queries.Moves:
    """Plays one picture."""
    reach = int(task.epsilon)
    low, high = np.maximum(clean - float(reach), 0), np.minimum(clean + float(reach), 255)
    point, probe = rng.uniform(low, high), max(1.0, PROBE * reach)
    mean = square = np.zeros(clean.shape)
    step = 0
    while True:
        signs = rng.choice([-1, 1], (PAIRS, *clean.shape))
        probes = np.clip(point + probe * np.concatenate([signs, -signs]), low, high)
        margins = yield np.rint(probes).astype(np.uint8)
        ahead, behind = np.nan_to_num(margins).reshape(2, PAIRS)
        if (ahead == behind).all():  # there are only decisions, or the margin is flat: go on elsewhere
            point, mean, square, step = rng.uniform(low, high), 0 * mean, 0 * square, 0
            continue
        step += 1
        slope = np.tensordot(ahead - behind, signs, 1) / (2 * probe * PAIRS)
        mean = DECAYS[0] * mean + (1 - DECAYS[0]) * slope
        square = DECAYS[1] * square + (1 - DECAYS[1]) * slope**2
        length = np.sqrt(square / (1 - DECAYS[1] ** step))
        point = np.clip(point - STEP * reach * mean / (1 - DECAYS[0] ** step) / (length + 1e-12), low, high)


class Spsa(Attack):
    """Plays all pictures of a question side by side."""

    def load(self, task: Task) -> None:
        """Keeps the task. Raises ValueError for another norm."""
        if task.norm != "linf":
            raise ValueError(f"this SPSA is for the Linf norm, not for {task.norm}")
        self.task = task

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> Iterator[tuple[int, np.ndarray]]:
        """Yields each position with its candidate, as soon as the defence misreads it."""
        return sparring_queries.play(self.task, pixels, labels, spsa)


if __name__ == "__main__":
    serve(Spsa())
