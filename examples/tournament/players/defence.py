"""A defence in plain NumPy: a view of the picture, and a judge that knows some training pictures.

    python defence.py VIEW JUDGE

All of it is whole numbers, so the answers are the same on every machine.
"""

from sparring_player import Defence, serve  # first: from here on print() writes to stderr

# isort: split
import sys

import judges
import numpy as np
import views


class Judge(Defence):
    """Looks at each picture, and at what it knows, through the same view."""

    def __init__(self, view: str, judge: str) -> None:
        self.view = getattr(views, view)
        self.judge = getattr(judges, judge)(self.view)

    def classify(self, pixels: np.ndarray) -> list:
        """Returns one label for each picture."""
        return self.judge(self.view(pixels.reshape(len(pixels), -1).astype(np.int64))).tolist()


if __name__ == "__main__":
    serve(Judge(sys.argv[1], sys.argv[2]))
