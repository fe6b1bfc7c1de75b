"""An attack that queries the defence with foolbox: HopSkipJump, by decisions alone."""

from sparring_player import Attack, serve  # first: from here on print() writes to your log

# isort: split
import os

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # images have no git, without which foolbox's GitPython fails

import foolbox
import numpy as np
from brokered import Brokered
from sparring_queries import PictureQueries


class Mine(Attack):
    """Plays one picture after the other: foolbox couples the pictures of a batch."""

    def load(self, task):
        """Makes the attack, in the norm of the budget."""
        self.task = task
        self.attack = foolbox.attacks.HopSkipJumpAttack(  # <- CHANGE THIS
            initial_gradient_eval_steps=20, constraint=task.norm
        )

    def perturb(self, pixels, labels):
        """Yields each position with its candidate; labels are the true ones, or None."""
        for place, clean in enumerate(pixels):
            np.random.seed(self.task.rng(clean).integers(2**32))  # noqa: NPY002  foolbox draws from it
            with PictureQueries(self.task, place, clean, None if labels is None else labels[place]) as asked:
                truth = np.array([asked.ask_clean()])
                self.attack.run(Brokered(asked, len(self.task.classes)), clean[None] / np.float32(255), truth)
            yield place, asked.best


if __name__ == "__main__":
    serve(Mine())
