"""Projected gradient descent on the defence itself (Madry et al. 2018, arXiv:1706.06083), in the Linf ball.

Every query asks for the gradient of the loss for the true label, of all pictures of the question at once, until what is
left pays for no other one.
"""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
import numpy as np

REACH = 2.5
"""All steps together would take a value so many times as far as the budget."""


class Gradient(Attack):
    """Steps of equal size along the sign of the gradient."""

    def load(self, task: Task) -> None:
        """Keeps the task. Raises ValueError for another norm, and where gradients cannot be asked for."""
        prices = (task.queries or {}).get("prices", {})
        if task.norm != "linf" or "gradient" not in prices:
            raise ValueError("this attack needs the Linf norm and `access: {kind: gradient}`")
        self.task, self.steps = task, task.queries["per_picture"] // prices["gradient"]

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        """Returns the pictures after the last step; `labels` are not needed, the defence is asked for the true ones."""
        del labels
        rng, reach, clean = self.task.rng(pixels), int(self.task.epsilon), pixels.astype(np.int16)
        size = max(1, round(REACH * reach / max(1, self.steps)))
        moved = clean + rng.integers(-reach, reach + 1, clean.shape)
        places = np.arange(len(pixels))
        for _ in range(self.steps):
            moved = np.clip(np.clip(moved, clean - reach, clean + reach), 0, 255)
            slope = self.task.ask(moved.astype(np.uint8), places, "gradient")
            slope = np.where(np.isnan(slope), rng.standard_normal(slope.shape), slope)
            moved = moved + size * np.sign(slope).astype(np.int16)
        return np.clip(np.clip(moved, clean - reach, clean + reach), 0, 255).astype(np.uint8)


if __name__ == "__main__":
    serve(Gradient())
