"""The interface of a dataset: options for the contest file, and samples.

A new kind is one file in this folder whose last line is `plugin = TheClass`.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from orchestrator.domain.samples import Pixels, Samples
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected

MAX_SIDE = 4096
"""The largest height or width of a picture."""
MAX_CLASSES = 100_000
MAX_TOTAL_BYTES = 4 * 1024**3
"""The largest size of all decoded pictures together, in bytes."""


class Options(BaseModel):
    """The options of every dataset."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    first: Annotated[int, Field(gt=0, description="use only the first so many pictures")] | None = None
    classes: Annotated[list[str], Field(min_length=2, description="class names, index = label")] | None = None
    only: Annotated[list[str], Field(min_length=2, description="use only pictures of these classes")] | None = None
    side: Annotated[int, Field(ge=1, le=MAX_SIDE, description="resize to so many pixels a side")] | None = None


O = TypeVar("O", bound=Options)  # noqa: E741  the parameter's conventional one-letter name


class Dataset(ABC, Generic[O]):
    """One kind of dataset."""

    name: ClassVar[str]
    options_type: ClassVar[type[Options]]

    @abstractmethod
    def read_samples(self, options: O, folder: Path) -> Samples:
        """Returns all samples. Relative paths in the options are relative to `folder`, that of the contest file.

        Raises:
            Rejected: the files are missing or invalid; every problem names its place.
        """

    def original_files(self, options: O, folder: Path) -> tuple[bytes, ...] | None:
        """Returns the JPEG or PNG file of each picture that `load_samples` returns, so that it can be published (C1).

        Returns None if pictures do not come from such files, or were changed.

        Raises:
            Rejected: like `read_samples`.
        """
        del options, folder
        return None

    def load_samples(self, options: O, folder: Path) -> Samples:
        """Returns the samples that the options select. Raises Rejected also if they cannot be selected."""
        samples, subject = self.read_samples(options, folder), f"dataset {self.name}"
        if options.only is not None:
            samples = _select_classes(samples, options.only, subject)
        if options.first is not None:
            if options.first > len(samples):
                problem = f"{options.first} pictures, there are {len(samples)}"
                raise Rejected(subject, [Problem("first", problem, "ask for fewer, or leave it out")])
            samples = samples.first(options.first)
        if options.side is not None:
            samples = _resize(samples, options.side, subject)
        return samples


def _select_classes(samples: Samples, only: list[str], subject: str) -> Samples:
    """Returns the pictures of these classes; a label is the index of its class in `only`."""
    if unknown := [name for name in only if name not in samples.classes]:
        problem = f"there is no class {', '.join(map(repr, unknown))}"
        shown = ", ".join(map(printable, samples.classes[:20]))
        raise Rejected(subject, [Problem("only", problem, f"name classes of the data: {shown}")])
    if len(set(only)) < len(only):
        raise Rejected(subject, [Problem("only", "names a class twice", "name each once")])
    places = np.full(len(samples.classes), -1)
    places[[samples.classes.index(name) for name in only]] = np.arange(len(only))
    labels = places[samples.labels]
    return Samples(np.ascontiguousarray(samples.pixels[labels >= 0]), labels[labels >= 0], tuple(only))


def _resize(samples: Samples, side: int, subject: str) -> Samples:
    height, width = samples.pixels.shape[2:]
    if height != width:
        raise Rejected(subject, [Problem("side", f"pictures of {width} x {height}", "cut them to squares first")])
    if len(samples) * samples.pixels.shape[1] * side * side > MAX_TOTAL_BYTES:
        raise Rejected(subject, [Problem("side", f"more than {MAX_TOTAL_BYTES} bytes", "use a smaller one")])
    return replace(samples, pixels=_resized_pictures(samples.pixels, side))


def _resized_pictures(pixels: Pixels, side: int) -> Pixels:
    """Returns pictures u8 [n, c, h, w] as [n, c, side, side], each channel interpolated by Pillow (bilinear).

    If a picture gets smaller, Pillow averages over the pixels that fall away.
    """
    from PIL import Image  # noqa: PLC0415  every command imports this module, and few contests need Pillow

    count, channels = pixels.shape[:2]
    resized = np.empty((count, channels, side, side), np.uint8)
    for number in range(count):
        for channel in range(channels):
            grey = Image.fromarray(pixels[number, channel])
            resized[number, channel] = np.asarray(grey.resize((side, side), Image.Resampling.BILINEAR))
    return resized


def make_samples(
    subject: str, pixels: NDArray[np.generic], labels: NDArray[np.generic], classes: list[str] | None
) -> Samples:
    """Returns checked samples from arrays: u8 [n, h, w], [n, h, w, c] or [n, c, h, w] with c of 1 or 3, and labels [n].

    An array that fits both forms is interpreted as [n, c, h, w].

    Raises:
        Rejected: with every problem.
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
