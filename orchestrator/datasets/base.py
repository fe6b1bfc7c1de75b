"""What a dataset owes: options for the contest file, and samples.

A new kind is one file in this folder whose last line is `plugin = TheClass`.
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Annotated, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from orchestrator.domain.samples import Samples
from orchestrator.errors import Problem, Rejected

MAX_SIDE = 4096
"""The largest height or width of a picture."""
MAX_CLASSES = 100_000
MAX_TOTAL_BYTES = 4 * 1024**3
"""The most bytes of all pictures, decoded."""


class Options(BaseModel):
    """What every dataset understands."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    first: Annotated[int, Field(gt=0, description="use only the first so many pictures")] | None = None
    classes: Annotated[list[str], Field(min_length=2, description="class names, index = label")] | None = None


O = TypeVar("O", bound=Options)  # noqa: E741  the parameter's conventional one-letter name


class Dataset(ABC, Generic[O]):
    """One kind of dataset."""

    name: ClassVar[str]
    options_type: ClassVar[type[Options]]

    @abstractmethod
    def read_samples(self, options: O, folder: Path) -> Samples:
        """Returns all samples. Relative paths in the options start at `folder`, where the contest file lies.

        Raises:
            Rejected: the files are missing or not what they should be; every problem names its place.
        """

    def load_samples(self, options: O, folder: Path) -> Samples:
        """Returns the samples that the contest file asks for. Raises Rejected also when there are too few."""
        samples = self.read_samples(options, folder)
        if options.first is None:
            return samples
        if options.first > len(samples):
            problem = f"{options.first} pictures, there are {len(samples)}"
            raise Rejected(f"dataset {self.name}", [Problem("first", problem, "ask for fewer, or leave it out")])
        return samples.first(options.first)


def make_samples(
    subject: str, pixels: NDArray[np.generic], labels: NDArray[np.generic], classes: list[str] | None
) -> Samples:
    """Returns checked samples from arrays: u8 [n, h, w], [n, h, w, c] or [n, c, h, w] with c of 1 or 3, and labels [n].

    An array that fits both is taken for [n, c, h, w].

    Raises:
        Rejected: with all that is wrong at once.
    """
    problems = _array_problems(pixels, labels, classes)
    if problems:
        raise Rejected(subject, problems)
    if pixels.ndim == 3:  # noqa: PLR2004  grey pictures without a channel axis
        pixels = pixels[:, np.newaxis]
    elif pixels.shape[1] not in (1, 3):
        pixels = pixels.transpose(0, 3, 1, 2)
    names = classes or [str(label) for label in range(int(labels.max()) + 1)]
    return Samples(np.ascontiguousarray(pixels, np.uint8), labels.astype(np.int64), tuple(names))


def _array_problems(
    pixels: NDArray[np.generic], labels: NDArray[np.generic], classes: list[str] | None
) -> list[Problem]:
    problems = []
    if pixels.dtype != np.uint8:
        problems.append(Problem("images", f"values are {pixels.dtype}", "store unsigned 8-bit values 0..255"))
    coloured = pixels.ndim == 4 and (pixels.shape[1] in (1, 3) or pixels.shape[3] in (1, 3))  # noqa: PLR2004  n and chw
    if pixels.ndim != 3 and not coloured:  # noqa: PLR2004
        problems.append(
            Problem("images", f"an array of shape {pixels.shape}", "use [n, h, w], [n, h, w, 3] or [n, 3, h, w]")
        )
    elif max(pixels.shape[1:]) > MAX_SIDE or 0 in pixels.shape:
        problems.append(Problem("images", f"an array of shape {pixels.shape}", f"use sides of 1 to {MAX_SIDE}"))
    if labels.ndim != 1 or labels.shape != pixels.shape[:1]:
        problem = f"an array of shape {labels.shape} for pictures of shape {pixels.shape}"
        problems.append(Problem("labels", problem, "give one label a picture"))
    elif not np.issubdtype(labels.dtype, np.integer):
        problems.append(Problem("labels", f"labels are {labels.dtype}", "store integers, index into the classes"))
    elif labels.size and (labels.min() < 0 or labels.max() >= (len(classes) if classes else MAX_CLASSES)):
        problems.append(
            Problem("labels", f"labels from {labels.min()} to {labels.max()}", "use 0 to the number of classes minus 1")
        )
    return problems
