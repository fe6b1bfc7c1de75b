"""Pictures in a folder or a zip, with `label.txt`: one line a picture, `name class` (rules B6 and C1).

    |-- images
    |   |-- 0.png
    |   `-- 1.png
    `-- label.txt

The class is a number or a name. A zip is read with suspicion: only the names that `label.txt` lists are opened, each is
decoded under a size limit, and nothing is unpacked to disk.
"""

import io
import lzma
import stat
import warnings
import zipfile
import zlib
from collections.abc import Callable
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
from orchestrator.picture_files.labels import LabelLine, class_names, class_position, parse_label_lines

MAX_FILE_BYTES = 32 * 1024**2
"""The most bytes of one file, unpacked."""
FORMATS = ("PNG", "JPEG", "BMP", "PPM")
MAX_PROBLEMS_SHOWN = 20
"""How many problems are listed; the rest are counted."""

READ_ERRORS = (
    *(OSError, KeyError, ValueError),
    *(EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning),
)
"""What a missing, damaged or hostile file makes the system, zipfile and Pillow raise."""

FileReader = Callable[[str], bytes]


class FolderOptions(Options):
    """Which folder or zip."""

    path: str
    mode: Literal["auto", "L", "RGB"] = "auto"
    """`L` for grey, `RGB` for colour; `auto` takes that of the first picture."""


class FolderDataset(Dataset[FolderOptions]):
    """A folder or zip of pictures."""

    name = "folder"
    options_type = FolderOptions

    def read_samples(self, options: FolderOptions, folder: Path) -> Samples:
        """Returns the pictures in the order of `label.txt`."""
        path = folder / options.path
        subject = f"dataset {options.path}"
        try:
            if path.is_dir():
                return _read_samples(subject, options, lambda name: _read_from_folder(path, name))
            with zipfile.ZipFile(path) as archive:
                return _read_samples(subject, options, lambda name: _read_from_zip(archive, name))
        except READ_ERRORS as error:
            remedy = "give the path of a folder or a zip, relative to the contest file"
            raise Rejected(subject, [Problem(str(path), printable(str(error)), remedy)]) from error


def _read_samples(subject: str, options: FolderOptions, opener: FileReader) -> Samples:
    lines, problems = _read_label_lines(opener)
    classes = options.classes or class_names(line.label for line in lines)
    pixels: list[NDArray[np.uint8]] = []
    labels: list[int] = []
    mode = options.mode
    for line in lines:
        place, name = line.place, line.name
        known = class_position(line.label, classes)
        if known < 0:
            what = f"unknown class {printable(line.label)!r}"
            problems.append(Problem(place, what, f"use one of {', '.join(classes)}"))
            continue
        try:
            picture = _decode_picture(opener(f"images/{name}"), mode)
        except READ_ERRORS as error:
            problems.append(Problem(place, f"images/{printable(name)}: {printable(str(error))}", "mend or remove it"))
            continue
        if not pixels and picture.nbytes * len(lines) > MAX_TOTAL_BYTES:
            problem = f"{len(lines)} pictures of {picture.nbytes} bytes, at most {MAX_TOTAL_BYTES} bytes in all"
            raise Rejected(subject, [Problem(LABELS, problem, "use fewer or smaller pictures")])
        mode = "L" if picture.ndim == 2 else "RGB"  # noqa: PLR2004  [h, w] or [h, w, 3]
        if pixels and picture.shape != pixels[0].shape:
            problem = f"images/{printable(name)} is {picture.shape}, the first is {pixels[0].shape}"
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


def _read_label_lines(opener: FileReader) -> tuple[list[LabelLine], list[Problem]]:
    """Returns every usable line of `label.txt`, and what is wrong with the others."""
    try:
        return parse_label_lines(opener(LABELS).decode("utf-8-sig"))
    except READ_ERRORS as error:
        return [], [Problem(LABELS, printable(str(error)), "put a label.txt beside images/")]


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
