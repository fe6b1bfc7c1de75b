"""Reads the array `images.npy` of a NumPy archive from strangers (rule C2; NumPy Enhancement Proposal 1).

Its header is text with the type, order and shape. It is compared with those that the task requires, and is never
evaluated or trusted: the task determines how many bytes are read.
"""

import re
from typing import Literal

import numpy as np

from orchestrator.domain.samples import Pixels
from orchestrator.domain.text import printable
from orchestrator.picture_files.picture import PictureRefused

FILE_NAME = "images.npy"
MAX_HEADER_BYTES = 4096
_MAGIC = b"\x93NUMPY"
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
"""The number of bytes of the header's length, by version of the format."""
_HEADER = re.compile(
    r"\{\s*'descr':\s*'([^']*)',\s*'fortran_order':\s*(True|False),\s*'shape':\s*\(([\d, ]*)\),?\s*\}\s*", re.ASCII
)
_UNSIGNED_8_BIT = frozenset({"|u1", "<u1", ">u1", "u1"})
_REMEDY = "write it with np.savez(path, images=images)"


def max_bytes(shape: tuple[int, int, int, int]) -> int:
    """Returns the largest size, in bytes, of an array file of pictures [n, c, h, w]."""
    return MAX_HEADER_BYTES + int(np.prod(shape, dtype=np.int64))


def read_array_file(data: bytes, shape: tuple[int, int, int, int]) -> Pixels:
    """Returns the pictures u8 [n, c, h, w] of an array file u8 [n, h, w, c], or [n, h, w] for one channel.

    Args:
        data: the file, of at most `max_bytes` bytes.
        shape: n, c, h, w of the task's pictures.

    Raises:
        PictureRefused: it is not an array file, or has another type or shape.
    """
    count, channels, height, width = shape
    text, values = _header(data)
    found = _HEADER.fullmatch(text)
    if found is None:
        raise PictureRefused("an array file with a header that is not read here", _REMEDY)
    descr, fortran, sides = found.groups()
    if descr not in _UNSIGNED_8_BIT:
        raise PictureRefused(
            f"values of the type {printable(descr, 40)!r}", "store unsigned 8-bit values 0..255: np.uint8"
        )
    wanted = [f"{count},{height},{width},{channels}"] + [f"{count},{height},{width}"] * (channels == 1)
    if sides.replace(" ", "").strip(",") not in wanted:
        raise PictureRefused(f"an array of shape ({printable(sides, 60)})", f"store the shape ({wanted[0]})")
    pixels = np.frombuffer(values, np.uint8)
    if pixels.size != count * channels * height * width:
        raise PictureRefused(f"{pixels.size} values, and its header says ({sides})", _REMEDY)
    order: Literal["F", "C"] = "F" if fortran == "True" else "C"
    channels_last = pixels.reshape((count, height, width, channels), order=order)
    return np.ascontiguousarray(channels_last.transpose(0, 3, 1, 2))


def _header(data: bytes) -> tuple[str, memoryview]:
    """Returns the text of the header, and the bytes after it."""
    begin = len(_MAGIC) + 2
    digits = _LENGTH_BYTES.get(data[len(_MAGIC)] if len(data) > begin else 0, 0)
    if not data.startswith(_MAGIC) or not digits:
        raise PictureRefused("no array file of a version that is read here", _REMEDY)
    length = int.from_bytes(data[begin : begin + digits], "little")
    if length > MAX_HEADER_BYTES - begin - digits or begin + digits + length > len(data):
        raise PictureRefused(f"an array file with a header of {length} bytes", _REMEDY)
    end = begin + digits + length
    return data[begin + digits : end].decode("latin-1"), memoryview(data)[end:]
