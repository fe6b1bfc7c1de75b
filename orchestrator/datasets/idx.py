"""Pictures and labels in IDX files, the format of MNIST and of sets that are shaped like it.

A file begins with two zero bytes, the type of its values (8: unsigned bytes) and the number of its axes, then has the
length of each axis as a big-endian 32-bit number, then the values. Source: http://yann.lecun.com/exdb/mnist/
"""

import gzip
import io
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orchestrator.datasets.base import MAX_TOTAL_BYTES, Dataset, Options, make_samples
from orchestrator.domain.samples import Samples
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected

_UNSIGNED_BYTES = 8
_GZIP = b"\x1f\x8b"
_READ_ERRORS = (OSError, EOFError, zlib.error, ValueError)
"""Errors that the system raises for a missing file, and gzip and the parser for a damaged one."""


class IdxOptions(Options):
    """The two files; each may be compressed with gzip."""

    images: str
    labels: str


class IdxDataset(Dataset[IdxOptions]):
    """A file of pictures [n, h, w] and a file of labels [n]."""

    name = "idx"
    options_type = IdxOptions

    def read_samples(self, options: IdxOptions, folder: Path) -> Samples:
        """Returns the pictures in the order of the files."""
        arrays, problems = [], []
        for name in (options.images, options.labels):
            try:
                arrays.append(_read_array(folder / name))
            except _READ_ERRORS as error:
                remedy = "give the path of an IDX file, relative to the contest file"
                problems.append(Problem(str(folder / name), printable(str(error)) or type(error).__name__, remedy))
        subject = f"dataset {options.images}"
        if problems:
            raise Rejected(subject, problems)
        pixels, labels = arrays
        return make_samples(subject, pixels, labels, options.classes)


def _read_array(path: Path) -> NDArray[np.uint8]:
    """Returns the array in a file. Raises one of `_READ_ERRORS` if it has none, or its header is wrong."""
    with path.open("rb") as file:
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        return _read_values(gzip.GzipFile(fileobj=file) if packed else file)


def _read_values(file: io.BufferedIOBase) -> NDArray[np.uint8]:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0":  # noqa: PLR2004  its length
        raise ValueError("it does not begin like an IDX file")
    if magic[2] != _UNSIGNED_BYTES:
        raise ValueError(f"its values are of type {magic[2]}; unsigned bytes (8) are read")
    lengths = file.read(4 * magic[3])
    if len(lengths) < 4 * magic[3]:
        raise ValueError("it ends in its header")
    shape = struct.unpack(f">{magic[3]}I", lengths)
    size = math.prod(shape)
    if size > MAX_TOTAL_BYTES:
        raise ValueError(f"it says that it holds {size} bytes, at most {MAX_TOTAL_BYTES}")
    data = file.read(size + 1)
    if len(data) != size:
        found = "more" if len(data) > size else f"only {len(data)}"
        raise ValueError(f"its header says {size} bytes of values, and there are {found}")
    return np.frombuffer(data, np.uint8).reshape(shape)


plugin = IdxDataset
