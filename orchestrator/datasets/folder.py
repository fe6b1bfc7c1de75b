"""Pictures in a folder or a zip, with `label.txt`: one line per picture, `name class` (rules B6 and C1).

    |-- images
    |   |-- 0.png
    |   `-- 1.png
    `-- label.txt

The class is a number or a name. Without `images/` and `label.txt`, each picture is in a folder with its class's name:

    |-- bicycle
    |   `-- 0.png
    `-- bird
        `-- 0.png

A zip is hostile input: only listed files are opened, each is decoded with a size limit, and nothing is unpacked to
disk.
"""

import io
import lzma
import stat
import warnings
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from orchestrator.datasets.base import MAX_SIDE, MAX_TOTAL_BYTES, Dataset, Options, make_samples
from orchestrator.domain.samples import Samples
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected
from orchestrator.picture_files.labels import FILE_NAME as LABELS
from orchestrator.picture_files.labels import class_names, class_position, parse_label_lines

MAX_FILE_BYTES = 32 * 1024**2
"""The largest file, in bytes, unpacked."""
FORMATS = ("PNG", "JPEG", "BMP", "PPM")
MAX_PROBLEMS_SHOWN = 20
"""How many problems are listed; the rest are counted."""

READ_ERRORS = (
    *(OSError, KeyError, ValueError),
    *(EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning),
)
"""Errors that the system, zipfile and Pillow raise for a missing, damaged or hostile file."""

FileReader = Callable[[str], bytes]
ListNames = Callable[[], Iterable[str]]


@dataclass(frozen=True, slots=True)
class _ListedPicture:
    """A picture's path in the folder or zip, its class as written, and the place that an error names."""

    path: str
    label: str
    place: str


class FolderOptions(Options):
    """The folder or zip, and the colour mode."""

    path: str
    mode: Literal["auto", "L", "RGB"] = "auto"
    """`L` for grey, `RGB` for colour; `auto` takes that of the first picture."""


class FolderDataset(Dataset[FolderOptions]):
    """A folder or zip of pictures."""

    name = "folder"
    options_type = FolderOptions

    def read_samples(self, options: FolderOptions, folder: Path) -> Samples:
        """Returns the pictures in the order of `label.txt`, or without it, those of all classes alternately."""
        path = folder / options.path
        subject = f"dataset {options.path}"
        try:
            if path.is_dir():
                return _read_samples(
                    subject, options, lambda name: _read_from_folder(path, name), lambda: _names_in_folder(path)
                )
            with zipfile.ZipFile(path) as archive:
                return _read_samples(subject, options, lambda name: _read_from_zip(archive, name), archive.namelist)
        except READ_ERRORS as error:
            remedy = "give the path of a folder or a zip, relative to the contest file"
            raise Rejected(subject, [Problem(str(path), printable(str(error)), remedy)]) from error


def _read_samples(subject: str, options: FolderOptions, opener: FileReader, list_names: ListNames) -> Samples:
    listed, problems = _list_pictures(opener, list_names)
    classes = options.classes or class_names(each.label for each in listed)
    pixels: list[NDArray[np.uint8]] = []
    labels: list[int] = []
    mode = options.mode
    for each in listed:
        place, name = each.place, printable(each.path)
        known = class_position(each.label, classes)
        if known < 0:
            what = f"unknown class {printable(each.label)!r}"
            problems.append(Problem(place, what, f"use one of {', '.join(classes)}"))
            continue
        try:
            picture = _decode_picture(opener(each.path), mode)
        except READ_ERRORS as error:
            problems.append(Problem(place, f"{name}: {printable(str(error))}", "replace or remove it"))
            continue
        if not pixels and picture.nbytes * len(listed) > MAX_TOTAL_BYTES:
            problem = f"{len(listed)} pictures of {picture.nbytes} bytes, at most {MAX_TOTAL_BYTES} bytes in all"
            raise Rejected(subject, [Problem(LABELS, problem, "use fewer or smaller pictures")])
        mode = "L" if picture.ndim == 2 else "RGB"  # noqa: PLR2004  [h, w] or [h, w, 3]
        if pixels and picture.shape != pixels[0].shape:
            problem = f"{name} is {picture.shape}, the first is {pixels[0].shape}"
            problems.append(Problem(place, problem, "make all pictures the same size"))
            continue
        pixels.append(picture)
        labels.append(known)
    if problems or not pixels:
        rest = len(problems) - MAX_PROBLEMS_SHOWN
        more = [Problem(LABELS, f"and {rest} more problems")] if rest > 0 else []
        raise Rejected(
            subject, problems[:MAX_PROBLEMS_SHOWN] + more or [Problem(LABELS, "no pictures", "list at least one")]
        )
    stacked = np.stack(pixels)
    channels_first = stacked if mode == "L" else stacked.transpose(0, 3, 1, 2)
    return make_samples(subject, channels_first, np.array(labels), classes)


def _list_pictures(opener: FileReader, list_names: ListNames) -> tuple[list[_ListedPicture], list[Problem]]:
    """Returns the pictures in `label.txt`, or without it in folders of classes, and the problems of other lines."""
    try:
        lines, problems = parse_label_lines(opener(LABELS).decode("utf-8-sig"))
    except READ_ERRORS as error:
        missing = isinstance(error, KeyError | FileNotFoundError)
        if missing and (found := list(_in_class_folders(list_names()))):
            return found, []
        remedy = "put a label.txt beside images/, or the pictures of each class into a folder of its name"
        return [], [Problem(LABELS, printable(str(error)), remedy)]
    return [_ListedPicture(f"images/{line.name}", line.label, line.place) for line in lines], problems


def _in_class_folders(names: Iterable[str]) -> Iterator[_ListedPicture]:
    """Yields the files in the folders of classes, alternately; none if there is a folder `images/`."""
    by_class: dict[str, list[str]] = defaultdict(list)
    for name in names:
        label, _, file = name.partition("/")
        if file and "/" not in file and not name.startswith((".", "__MACOSX/")) and not file.startswith("."):
            by_class[label].append(name)
    if "images" in by_class:
        return
    labels = sorted(by_class)
    for row in zip_longest(*(sorted(by_class[label]) for label in labels)):
        yield from (_ListedPicture(name, label, f"{label}/") for name, label in zip(row, labels, strict=True) if name)


def _names_in_folder(folder: Path) -> Iterator[str]:
    """Yields the paths of the files in the subfolders of a folder, relative to it."""
    for inner in folder.iterdir():
        if inner.is_dir():
            yield from (f"{inner.name}/{path.name}" for path in inner.iterdir() if not path.is_dir())


def _decode_picture(data: bytes, mode: Literal["auto", "L", "RGB"]) -> NDArray[np.uint8]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        source = Image.open(io.BytesIO(data), formats=FORMATS)
    with source as image:
        if max(image.size) > MAX_SIDE:
            raise ValueError(f"{image.size[0]} x {image.size[1]} pixels, at most {MAX_SIDE} a side")
        target_mode = ("L" if image.mode in ("L", "1") else "RGB") if mode == "auto" else mode
        return np.asarray(image.convert(target_mode), np.uint8)


def _read_from_folder(folder: Path, name: str) -> bytes:
    path = folder / name
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("not a regular file")
    if status.st_size > MAX_FILE_BYTES:
        raise ValueError(f"{status.st_size} bytes, at most {MAX_FILE_BYTES}")
    return path.read_bytes()


def _read_from_zip(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"more than {MAX_FILE_BYTES} bytes unpacked")
    return data


plugin = FolderDataset
