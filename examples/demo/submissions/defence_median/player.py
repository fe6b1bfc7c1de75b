"""Nearest centroid, once on the picture as it is and once on its median-filtered copy; the two distances are added.

The median of a value and its four neighbours removes lone extremes (feature squeezing, Xu et al. 2018,
arXiv:1704.01155). Each class has several centroids, because people write a seven in more than one way.
"""

from sparring_player import Defence, Task, serve  # first: from here on print() writes to stderr

# isort: split
from pathlib import Path

import numpy as np
from median import median

CENTROIDS = Path(__file__).with_name("centroids.npz")


class Median(Defence):
    """Two views of each picture, eight centroids for each class in each view."""

    def load(self, task: Task) -> None:  # noqa: ARG002  the seam
        """Reads the centroids of both views, uint8 [classes, centroids, values]."""
        with np.load(CENTROIDS, allow_pickle=False) as archive:
            self.plain, self.filtered = archive["plain"].astype(np.int32), archive["filtered"].astype(np.int32)

    def classify(self, pixels: np.ndarray) -> list:
        """Returns one label for each picture."""
        plain = nearest(pixels, self.plain)
        return list((plain + nearest(median(pixels), self.filtered)).argmin(axis=1))


def nearest(pixels: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Returns the squared distance [n, classes] to each class's nearest centroid."""
    flat = pixels.reshape(len(pixels), 1, 1, -1).astype(np.int32)
    return ((flat - centroids) ** 2).sum(axis=3).min(axis=2)


if __name__ == "__main__":
    serve(Median())
