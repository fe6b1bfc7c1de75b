"""An attack in NumPy: random signs at the edge of the budget, which is what one reaches that knows nothing."""

from sparring_player import Attack, serve  # first: from here on print() writes to your log

# isort: split
import numpy as np


class Mine(Attack):
    """Moves each value by epsilon, up or down."""

    def load(self, task):
        """Called once, before the first question: whatever takes long goes here."""
        self.task = task  # its name, classes, shape, norm and epsilon

    def perturb(self, pixels, labels):
        """Returns candidates for pixels, uint8 [n, channels, height, width]; labels are the true ones, or None."""
        rng = self.task.rng(pixels)  # the same batch gets the same chance
        change = self.task.epsilon * rng.choice(np.array([-1, 1]), pixels.shape)  # <- CHANGE THIS
        return self.task.within(pixels, pixels + change)  # uint8, and within the budget


if __name__ == "__main__":
    serve(Mine())
