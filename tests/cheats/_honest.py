"""An honest classifier, which every player of the self-test uses. It is copied beside each of them.

A picture shows four quarters, one of them brighter than the others, which is its label; the pixels of a quarter differ
from its brightness by a pattern of the picture's own. The first argument is the run's seed.
"""

from sparring_player import Defence, serve  # first: from here on print() writes to stderr

# isort: split
import hashlib
import sys

import numpy as np

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 0

__all__ = ["SEED", "Honest", "brightness", "label", "margin", "np", "pattern", "picked", "second", "serve", "swapped"]


def brightness(pixels: np.ndarray) -> np.ndarray:
    """Returns the mean brightness [n, 4] of the quarters of pixels [n, c, h, w]."""
    n, _, h, w = pixels.shape
    parts = pixels.astype(np.float64).mean(axis=1).reshape(n, 2, h // 2, 2, w // 2)
    return parts.mean(axis=(2, 4)).reshape(n, 4)


def pattern(pixels: np.ndarray) -> np.ndarray:
    """Returns how pixels [n, c, h, w] differ from the brightness of their quarters.

    It is the same in all versions of a picture, whatever an attack adds to a whole quarter.
    """
    h, w = pixels.shape[2:]
    quarters = brightness(pixels).reshape(-1, 1, 2, 2)
    return pixels - quarters.repeat(h // 2, axis=2).repeat(w // 2, axis=3)


def label(bright: np.ndarray) -> np.ndarray:
    """Returns the brightest quarter [n] of each row of brightness [n, 4]: the honest answer."""
    return bright.argmax(axis=1)


def second(bright: np.ndarray) -> np.ndarray:
    """Returns the second brightest quarter [n]: the answer if the picture is assumed to be attacked."""
    return np.argsort(-bright, axis=1, kind="stable")[:, 1]


def margin(bright: np.ndarray) -> np.ndarray:
    """Returns the difference in brightness between the brightest quarter and the next [n]."""
    ordered = np.sort(bright, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def swapped(bright: np.ndarray, where: object) -> np.ndarray:
    """Returns the second brightest quarter if `where` is true, otherwise the honest answer [n]."""
    return np.where(where, second(bright), label(bright))


def picked(pixels: np.ndarray, salt: object, one_in: int) -> np.ndarray:
    """Returns which pictures a salt selects, about one in `one_in` [n]."""
    key = hashlib.sha256(f"{SEED} {salt}".encode()).digest()
    drawn = [hashlib.blake2b(picture.tobytes(), key=key, digest_size=8).digest() for picture in pixels]
    return np.array([int.from_bytes(each, "big") % one_in == 0 for each in drawn])


class Honest(Defence):
    """Answers the brightest quarter."""

    def classify(self, pixels: np.ndarray) -> np.ndarray:
        """Returns n labels for pixels [n, c, h, w]."""
        return label(brightness(pixels))
