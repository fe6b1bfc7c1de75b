"""Reads an entry of an attack-set contest: a zip of pictures, or one array, instead of a program (rules C1 and C2).

The file is a zip with the task's tree, or an `.npz`, which is a zip as well, with the array `images`:

    |-- images                  images.npy   u8 [n, h, w, c], or [n, h, w] for one channel
    |   |-- 0.png
    |   `-- 1.png
    `-- label.txt

- A file's first bytes decide its kind, not its name: `images/0.jpg` may hold a PNG if the task accepts PNG, and may
  also be named `images/0.png`. `picture_files.decode` says which pictures are refused.
- `label.txt` is optional. It must agree with the task's labels, in any order, with names or numbers of classes, and is
  not used otherwise.
- All files may be in one folder of any name. `picture_files.zip_files` says which other files are skipped.
- Any other file is a problem. So is a picture that is missing, there twice, of another size, or not readable.

The files are read in one pass, one at a time, after the digest of the whole archive was computed. Memory is needed for
the task's pixels, one file, and the zip's list of members.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from orchestrator.archives.regular_file import open_regular_file
from orchestrator.domain.samples import Pixels, Samples
from orchestrator.domain.submissions import PictureFormat
from orchestrator.domain.text import printable
from orchestrator.picture_files import array_file, labels
from orchestrator.picture_files.decode import decode_picture, decoder_versions
from orchestrator.picture_files.picture import PictureRefused
from orchestrator.picture_files.problems import ProblemList
from orchestrator.picture_files.task_zip import IMAGES, SUFFIXES
from orchestrator.picture_files.zip_files import PictureBounds, ZippedFile, visit_files

_MAX_LABEL_LINE_BYTES = 512


@dataclass(frozen=True, slots=True)
class PictureLayout:
    """What an entry must contain.

    Attributes:
        names: the path of each picture in the zip, in the task's order, such as `images/0.jpg`.
        height: the height of every picture in pixels, as `width` is its width.
        channels: 1 (grey) or 3 (RGB).
        formats: the accepted formats; `NPZ` is an array of all pictures.
        labels: the label of each picture in `label.txt`; None if there may be no such file.
        numbers: if classes have names, the class's number, which `label.txt` may have instead; else None.
        bounds: the bounds of the archive; None: those that follow from the number and size of the pictures.
    """

    names: tuple[str, ...]
    height: int
    width: int
    channels: int
    formats: frozenset[PictureFormat]
    labels: tuple[str, ...] | None = None
    numbers: tuple[str, ...] | None = None
    bounds: PictureBounds | None = None

    @classmethod
    def of_task(cls, samples: Samples, names: tuple[str, ...], formats: frozenset[PictureFormat]) -> "PictureLayout":
        """Returns the layout of entries for a task whose pictures were published under these names."""
        channels, height, width = samples.shape
        texts = labels.label_texts(samples.labels.tolist(), samples.classes)
        named = not any(name.isdecimal() for name in samples.classes)
        numbers = tuple(str(label) for label in samples.labels.tolist()) if named else None
        return cls(names, height, width, channels, formats, texts, numbers)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The channels, height and width of one picture."""
        return (self.channels, self.height, self.width)


@dataclass(frozen=True, slots=True, eq=False)
class PictureArchive:
    """The pictures of an entry.

    Attributes:
        pixels: u8 [n, c, h, w], in the task's order.
        digest: the `sha256:...` of the file.
        decoder: the libraries that decoded them and their versions: other ones may differ by a step of 1/255.
    """

    pixels: Pixels
    digest: str
    decoder: str


def read_picture_archive(path: Path, layout: PictureLayout) -> PictureArchive:
    """Returns the pictures of an entry.

    Raises:
        UsageError: there is no such file.
        Rejected: with all its problems, as far as it could be read.
    """
    bounds = layout.bounds or PictureBounds.of(len(layout.names), int(np.prod(layout.shape)))
    problems = ProblemList()
    entry = _Entry(layout, bounds, problems)
    roots = {labels.FILE_NAME, array_file.FILE_NAME, *(name.split("/")[0] for name in layout.names)}
    with open_regular_file(path) as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        if visit_files(file, bounds, roots, problems, entry.take):
            entry.finish()
    problems.raise_if_any(f"pictures {printable(path.name)}")
    return PictureArchive(entry.pixels, digest, decoder_versions())


class _Entry:
    """Reads the files of an entry, one after the other, and collects problems."""

    def __init__(self, layout: PictureLayout, bounds: PictureBounds, problems: ProblemList) -> None:
        self._layout, self._bounds, self._problems = layout, bounds, problems
        self.pixels: Pixels = np.zeros((len(layout.names), *layout.shape), np.uint8)
        self._positions = _accepted_names(layout)
        self._seen = np.zeros(len(layout.names), bool)
        self._array_seen = False

    def take(self, file: ZippedFile) -> None:
        """Reads one file. Raises MalformedArchive if its bytes do not match the zip's record of it."""
        try:
            self._take(file)
        except PictureRefused as error:
            self._problems.add(file.name, str(error), error.remedy)

    def finish(self) -> None:
        """Adds problems for missing pictures, after all files were read."""
        if self._array_seen:
            if self._seen.any():
                self._problems.add(
                    array_file.FILE_NAME, "beside single pictures", "submit either the array or the pictures"
                )
            return
        if not self._seen.any():
            what = f"none of the task's {len(self._seen)} pictures is in it"
            self._problems.add("archive", what, f"put {self._example()} at the top, or all in one folder")
            return
        suffixes, remedy = _suffixes(self._layout), "put it into the archive"
        for position in np.flatnonzero(~self._seen):
            name = PurePosixPath(self._layout.names[position])
            if len(suffixes) > 1:
                name, remedy = name.with_suffix(""), f"put it into the archive, as {' or '.join(suffixes)}"
            self._problems.add(str(name), "missing", remedy)

    def _take(self, file: ZippedFile) -> None:
        if file.name == labels.FILE_NAME and self._layout.labels is not None:
            self._compare_labels(file)
        elif file.name == array_file.FILE_NAME and PictureFormat.NPZ in self._layout.formats:
            self._take_array(file)
        elif file.name in self._positions and self._layout.formats & SUFFIXES.keys():
            self._take_picture(file, self._positions[file.name])
        else:
            raise PictureRefused("not one of the task's files", f"remove it, or name it as {self._example()}")

    def _take_picture(self, file: ZippedFile, position: int) -> None:
        if self._seen[position]:
            raise PictureRefused("there under another name already", "remove one of them")
        self._seen[position] = True
        if file.size > self._bounds.file_bytes:
            raise PictureRefused(f"{file.size} bytes, at most {self._bounds.file_bytes}", "save it without metadata")
        self.pixels[position], _ = decode_picture(file.read(), self._layout.formats, self._layout.shape)

    def _take_array(self, file: ZippedFile) -> None:
        self._array_seen = True
        shape = (len(self._layout.names), *self._layout.shape)
        most = array_file.max_bytes(shape)
        if file.size > most:
            raise PictureRefused(f"{file.size} bytes, at most {most}", f"store the task's {shape[0]} pictures as uint8")
        self.pixels = array_file.read_array_file(file.read(), shape)

    def _compare_labels(self, file: ZippedFile) -> None:
        most = _MAX_LABEL_LINE_BYTES * (1 + len(self._layout.names))
        remedy = "use the task's label.txt, or leave it out"
        if file.size > most:
            raise PictureRefused(f"{file.size} bytes, at most {most}", remedy)
        try:
            lines, problems = labels.parse_label_lines(file.read().decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise PictureRefused("not UTF-8", remedy) from None
        for problem in problems:
            self._problems.add(problem.place, problem.what, problem.remedy)
        unlisted = set(range(len(self._layout.names)))
        for line in lines:
            position = self._positions.get(f"{IMAGES}/{line.name}")
            if position is None or position not in unlisted:
                self._problems.add(line.place, f"{line.name!r} is no picture of the task, or listed twice", remedy)
                continue
            unlisted.remove(position)
            truth = (self._layout.labels or ())[position]
            number = None if self._layout.numbers is None else self._layout.numbers[position]
            if line.label not in {truth, number}:
                self._problems.add(line.place, f"{line.name} is {line.label!r}, the task says {truth!r}", remedy)
        if unlisted and not problems:
            raise PictureRefused(f"{len(unlisted)} of the task's pictures are not listed", remedy)

    def _example(self) -> str:
        files = self._layout.formats & SUFFIXES.keys()
        return self._layout.names[0] if files else array_file.FILE_NAME


def _suffixes(layout: PictureLayout) -> list[str]:
    """Returns the suffixes that a picture's name may have."""
    return [suffix for form, suffix in SUFFIXES.items() if form in layout.formats]


def _accepted_names(layout: PictureLayout) -> dict[str, int]:
    """Returns the position of a picture by each name that it may have."""
    suffixes = _suffixes(layout)
    positions: dict[str, int] = {}
    for position, name in enumerate(layout.names):
        for accepted in (name, *(str(PurePosixPath(name).with_suffix(suffix)) for suffix in suffixes)):
            if positions.setdefault(accepted, position) != position:
                raise ValueError(f"two pictures of the task may be named {accepted}")
    return positions
