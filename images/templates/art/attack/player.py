"""An attack that queries the defence with ART: HopSkipJump, by decisions alone."""

from sparring_player import Attack, serve  # first: from here on print() writes to your log

# isort: split
import numpy as np
from art.attacks.evasion import HopSkipJump
from brokered import brokered
from sparring_queries import PictureQueries


class Mine(Attack):
    """Plays one picture after the other, so that each keeps its own budget."""

    def load(self, task):
        """Called once, before the first question."""
        self.task, self.norm = task, np.inf if task.norm == "linf" else 2
        self.one_hot = np.eye(len(task.classes), dtype="float32")

    def perturb(self, pixels, labels):
        """Yields each position with its candidate; labels are the true ones, or None."""
        for place, clean in enumerate(pixels):
            np.random.seed(self.task.rng(clean).integers(2**32))  # noqa: NPY002  ART draws from it
            with PictureQueries(self.task, place, clean, None if labels is None else labels[place]) as asked:
                truth, model = self.one_hot[[asked.ask_clean()]], brokered(asked, self.task)
                attack = HopSkipJump(model, norm=self.norm, init_eval=20, max_iter=10, verbose=False)  # <- CHANGE THIS
                attack.generate(clean[None] / np.float32(255), truth)
            yield place, asked.best


if __name__ == "__main__":
    serve(Mine())
