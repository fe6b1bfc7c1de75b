"""Uniform noise within the Linf budget: what a blind attack reaches."""

from sparring_player import Attack, Task, serve  # first: from here on print() writes to stderr

# isort: split
import numpy as np


class Noise(Attack):
    """Adds to each value a whole number drawn uniformly from -epsilon to epsilon."""

    def load(self, task: Task) -> None:
        """Keeps the task, for its budget and its seed."""
        self.task = task

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:  # noqa: ARG002  the seam
        """Returns noisy pixels, the same for the same batch and seed."""
        reach = int(self.task.epsilon)
        noise = self.task.rng(pixels).integers(-reach, reach, pixels.shape, np.int16, endpoint=True)
        return np.clip(pixels + noise, 0, 255).astype(np.uint8)


if __name__ == "__main__":
    serve(Noise())
