"""Pictures with their labels, and adversarial examples."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""Unsigned 8-bit, C order: [n, channels, height, width], or [channels, height, width] for one picture."""
Labels = NDArray[np.int64]

GREY_VALUE = 128
"""The value of the uniform grey picture that stands for a missing candidate (rule A8)."""


@dataclass(frozen=True, eq=False)
class Samples:
    """A task's pictures [n, c, h, w] with their true labels [n] and the names of the classes."""

    pixels: Pixels
    labels: Labels
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of one picture."""
        _, c, h, w = self.pixels.shape
        return (c, h, w)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over shape, pixels, labels and class names."""
        state = hashlib.sha256(repr((self.pixels.shape, self.classes)).encode())
        state.update(np.ascontiguousarray(self.pixels).tobytes())
        state.update(np.ascontiguousarray(self.labels, "<i8").tobytes())
        return "sha256:" + state.hexdigest()

    def first(self, count: int) -> "Samples":
        """Returns the first `count` samples."""
        return Samples(self.pixels[:count], self.labels[:count], self.classes)


@dataclass(eq=False)
class AdversarialExamples:
    """The adversarial examples that are played for n pictures.

    Attributes:
        pixels: u8 [n, c, h, w], the pictures that a defence would be shown.
        forfeits: u8 [n], a `domain.outcomes.Forfeit` each.
        violations: bool [n], whether the delivered picture was beyond the budget, also if it was clipped.
        distances: f64 [n], in steps of 1/255, NaN if no comparable picture was delivered.
    """

    pixels: Pixels
    forfeits: NDArray[np.uint8]
    violations: NDArray[np.bool_]
    distances: NDArray[np.float64]


def grey_picture(shape: tuple[int, ...]) -> Pixels:
    """Returns the uniform grey picture of the given shape (rule A8)."""
    return np.full(shape, GREY_VALUE, np.uint8)
