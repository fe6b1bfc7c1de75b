"""Reads and writes PNG with only the standard library and NumPy; reading is faster if Pillow is installed.

The files may be hostile: everything is checked, and no more memory is used than the expected picture needs. Python 3.8
or newer.
"""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np

try:
    from PIL import Image
except ImportError:
    Image = None

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, COLOUR, GREY_ALPHA, COLOUR_ALPHA = 0, 2, 4, 6
CHANNELS = {GREY: 1, COLOUR: 3, GREY_ALPHA: 2, COLOUR_ALPHA: 4}
HEADER = struct.Struct(">IIBBBBB")


class Unusable(Exception):
    """A file is not a usable picture or result; the message says why."""


def write_png(pixels: np.ndarray, level: int = 1) -> bytes:
    """Returns a picture, uint8 [1 or 3, height, width], as a grey or RGB PNG of 8 bits.

    `level` is zlib's: level 0 does not compress, which takes a seventh of the time.
    """
    channels, height, width = pixels.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each row begins with its filter, 0: none
    for channel, values in enumerate(pixels):
        rows[:, 1 + channel :: channels] = values
    header = HEADER.pack(width, height, 8, GREY if channels == 1 else COLOUR, 0, 0, 0)
    return _png(header, zlib.compress(rows.tobytes(), level))


def _png(header: bytes, packed: bytes) -> bytes:
    """Returns a PNG with only a header and compressed rows."""
    parts = ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b""))
    return SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )


def read_png(data: bytes, shape: tuple) -> np.ndarray:
    """Returns the picture in a PNG as uint8 of `shape`, (1 or 3, height, width).

    The PNG must have 8 bits for each channel, no interlacing and no palette. An opaque alpha channel is dropped. For a
    grey task, equal channels count as grey; for a colour task, grey counts as colour. No more is decompressed than the
    picture needs.

    Raises:
        Unusable: the PNG is damaged, or has another form.
    """
    channels, height, width = shape
    header, packed = _chunks(data)
    if len(header) != HEADER.size:
        raise Unusable("its header is malformed")
    wide, high, depth, kind, compression, method, interlaced = HEADER.unpack(header)
    if (wide, high) != (width, height):
        raise Unusable(f"it is {wide} x {high}, not {width} x {height}")
    if depth != 8 or kind not in CHANNELS:  # noqa: PLR2004  bits
        raise Unusable(f"it has {depth} bits of colour type {kind}; write 8-bit grey or RGB")
    if interlaced or compression or method:
        raise Unusable("it is interlaced, or packed in a way that no PNG is")
    size = height * (1 + width * CHANNELS[kind])
    rows = np.frombuffer(_inflated(packed, size), np.uint8).reshape(height, -1)
    if rows[:, 0].max() > 4:  # noqa: PLR2004  the filters of a PNG
        raise Unusable(f"it has a filter {rows[:, 0].max()}")
    if Image is None:
        picture = _unfiltered(rows[:, 1:].reshape(height, width, -1), rows[:, 0])
    else:  # only the checked chunks: the others may be hostile
        with Image.open(io.BytesIO(_png(header, packed))) as opened:
            picture = np.asarray(opened).reshape(height, width, -1)
    picture = picture.transpose(2, 0, 1)
    if kind in (GREY_ALPHA, COLOUR_ALPHA):
        if (picture[-1] != 255).any():  # noqa: PLR2004  opaque
            raise Unusable("it is transparent in places")
        picture = picture[:-1]
    if len(picture) > channels and (picture != picture[:1]).any():
        raise Unusable("it has colours, and the task is grey")
    return np.ascontiguousarray(np.broadcast_to(picture[:1] if channels == 1 else picture, shape))


def _chunks(data: bytes) -> tuple:
    """Returns the header and the compressed rows of a PNG. Raises Unusable if a chunk is incomplete or damaged."""
    if data[:8] != SIGNATURE:
        raise Unusable("it is no PNG")
    header, packed, at, ended = None, [], 8, False
    while not ended:
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        body, check = data[at + 8 : at + 8 + length], data[at + 8 + length : at + 12 + length]
        if len(check) != 4:  # noqa: PLR2004  bytes
            raise Unusable("it ends in the middle")
        if zlib.crc32(kind + body) != int.from_bytes(check, "big"):
            raise Unusable("a checksum in it is wrong")
        if (kind == b"IHDR") != (header is None):
            raise Unusable("it does not begin with its header, or has two")
        header = body if kind == b"IHDR" else header
        if kind == b"IDAT":
            packed.append(body)
        elif kind[:1].isupper() and kind not in (b"IHDR", b"PLTE", b"IEND"):
            raise Unusable("it has a part that no PNG has")
        ended, at = kind == b"IEND", at + 12 + length
    return header, b"".join(packed)


def _inflated(packed: bytes, size: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        rows = unpacker.decompress(packed, size + 1)
    except zlib.error:
        raise Unusable("its rows cannot be inflated") from None
    if len(rows) != size or not unpacker.eof:
        more = len(rows) > size
        raise Unusable(f"it holds {'more' if more else 'less'} than the {size} bytes that a picture of its size has")
    return rows


def _unfiltered(rows: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """Returns bytes [height, width, channels] with each row's filter undone.

    A byte needs those to its left, above it and above to its left, so all bytes on one diagonal are computed at once.
    With a border of zeros and the rows one after another, a diagonal is a slice.
    """
    height, width, channels = rows.shape
    border = width + 1
    out = np.zeros((height + 1, border, channels), np.int16)
    out[1:, 1:] = rows
    flat = out.reshape(-1, channels)
    by_left, by_above, by_mean, by_nearest = ((filters == each).astype(np.int16)[:, None] for each in (1, 2, 3, 4))
    for diagonal in range(height + width - 1):
        first, last = max(0, diagonal - width + 1), min(height - 1, diagonal)
        here = slice(first, last + 1)
        start, stop = border + diagonal + 1 + first * width, border + diagonal + 2 + last * width
        left, above, corner = (flat[start - back : stop - back : width] for back in (1, border, border + 1))
        to_left, to_above, to_corner = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
        nearest = np.where(to_above <= to_corner, above, corner)
        nearest = np.where((to_left <= to_above) & (to_left <= to_corner), left, nearest)
        guess = by_left[here] * left + by_above[here] * above
        guess += by_mean[here] * ((left + above) >> 1) + by_nearest[here] * nearest
        flat[start:stop:width] = (flat[start:stop:width] + guess) & 255
    return out[1:, 1:].astype(np.uint8)
