"""A zip of pictures with `label.txt`, in the tree that an attack-set contest publishes (rule C1).

It is read like submissions, by `picture_files`: only JPEG and PNG of 8 bits, and no other files. `original_files`
returns the files themselves, so that participants get the same bytes.
"""

from pathlib import Path

import numpy as np

from orchestrator.datasets.base import Dataset, Options, make_samples
from orchestrator.domain.samples import Samples
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.picture_files import labels
from orchestrator.picture_files.problems import ProblemList
from orchestrator.picture_files.task_zip import TaskZip, read_task_zip


class PictureZipOptions(Options):
    """The zip."""

    path: str


class PictureZipDataset(Dataset[PictureZipOptions]):
    """A zip of pictures."""

    name = "zip"
    options_type = PictureZipOptions

    def read_samples(self, options: PictureZipOptions, folder: Path) -> Samples:
        """Returns the pictures in the order of `label.txt`."""
        found = _read_zip(options, folder)
        classes = options.classes or labels.class_names(line.label for line in found.lines)
        positions = [labels.class_position(line.label, classes) for line in found.lines]
        problems = ProblemList()
        for line, position in zip(found.lines, positions, strict=True):
            if position < 0:
                problems.add(line.place, f"unknown class {line.label!r}", f"use one of {', '.join(classes)}")
        problems.raise_if_any(f"dataset {options.path}")
        return make_samples(f"dataset {options.path}", found.pixels, np.array(positions), classes)

    def original_files(self, options: PictureZipOptions, folder: Path) -> tuple[bytes, ...] | None:
        """Returns the files of the pictures that the options select; None if they were resized."""
        if options.side is not None:
            return None
        files, samples = _read_zip(options, folder).files, self.read_samples(options, folder)
        wanted = samples.classes if options.only is None else options.only
        chosen = [file for file, label in zip(files, samples.labels, strict=True) if samples.classes[label] in wanted]
        return tuple(chosen[: options.first])


def _read_zip(options: PictureZipOptions, folder: Path) -> TaskZip:
    path = folder / options.path
    try:
        return read_task_zip(path)
    except UsageError as error:
        remedy = "give the path of a zip, relative to the contest file"
        raise Rejected(
            f"dataset {options.path}", [Problem(str(path), printable(str(error.__cause__ or error)), remedy)]
        ) from error


plugin = PictureZipDataset
