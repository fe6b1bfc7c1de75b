"""Checks a JPEG from strangers, segment by segment, before it is decoded (ITU-T T.81, annex B).

The decoder only gets the segments that determine the pixels: tables, the frame, its scans, and the two segments that
say how colours are stored (JFIF, Adobe). Comments, EXIF, colour profiles, thumbnails and lists of further pictures are
removed, so no parser for them is reached. Nothing may follow the end of the picture.
"""

import re
import struct
from collections.abc import Iterator

from orchestrator.domain.submissions import PictureFormat
from orchestrator.picture_files.picture import PictureRefused, PlainPicture

MAGIC = b"\xff\xd8\xff"
MAX_SCANS = 64
"""The largest number of scans of a progressive JPEG. Usually there are ten; each is a pass over the picture."""
_CHANNELS = {1: 1, 3: 3}
_EOI, _SOS = 0xD9, 0xDA
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_READ_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
"""Baseline, extended sequential and progressive, each with Huffman codes."""
_TABLES = frozenset({0xC4, 0xDB, 0xDD})
"""Huffman tables, quantisation tables, the restart interval."""
_METADATA = frozenset({*range(0xE0, 0xF0), 0xFE})
_COLOURS = {0xE0: b"JFIF\0", 0xEE: b"Adobe"}
"""The metadata that is kept: it says how the components form a colour."""
_AFTER_CODED = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
"""The end of coded data: a marker other than a stuffed zero, a restart or a fill byte."""
_FRAME = struct.Struct(">BHHB")
_CUT = "it was cut short: save it again"


def plain_jpeg(data: bytes) -> PlainPicture:
    """Returns a JPEG of 8 bits, grey or of three components, without its metadata. Raises PictureRefused."""
    kept, scans = [data[:2]], 0
    frame: tuple[int, int, int] | None = None
    for marker, body, whole in _segments(data):
        if marker in _FRAMES:
            if frame is not None:
                raise PictureRefused("a JPEG of several frames")
            frame = _frame(marker, body)
        elif marker == _SOS:
            scans += 1
            if frame is None or scans > MAX_SCANS:
                raise PictureRefused(f"scans before its frame, or more than {MAX_SCANS} of them")
        elif marker in _METADATA:
            if marker not in _COLOURS or not body.startswith(_COLOURS[marker]):
                continue
        elif marker not in _TABLES:
            raise PictureRefused(f"a JPEG with a segment of the kind {marker:#x}, which is not read here")
        kept.append(whole)
    if frame is None or not scans:
        raise PictureRefused("a JPEG without pixels")
    channels, height, width = frame
    return PlainPicture(PictureFormat.JPEG, channels, height, width, b"".join((*kept, b"\xff\xd9")))


def _segments(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yields marker, content and all bytes of each segment before the end marker; a scan includes its coded data.

    Raises PictureRefused if bytes follow the end marker.
    """
    at = 2
    while True:
        begin, marker, at = _marker(data, at)
        if marker == _EOI:
            break
        length = int.from_bytes(data[at : at + 2])
        body, at = data[at + 2 : at + length], at + length
        if length < 2 or at > len(data):  # noqa: PLR2004  the length counts its own two bytes
            raise PictureRefused("a JPEG with a segment that is cut short", _CUT)
        if marker == _SOS:
            found = _AFTER_CODED.search(data, at)
            if found is None:
                raise PictureRefused("a JPEG without an end", _CUT)
            at = found.start()
        yield marker, body, data[begin:at]
    if at != len(data):
        raise PictureRefused(f"{len(data) - at} bytes after the end of the picture", "save it again without them")


def _marker(data: bytes, at: int) -> tuple[int, int, int]:
    """Returns the offset of the marker at `at`, its code, and the offset after it."""
    after = at
    while data[after : after + 1] == b"\xff":
        after += 1
    if after >= len(data):
        raise PictureRefused("a JPEG without an end", _CUT)
    if after == at:
        raise PictureRefused("a JPEG with bytes that no segment owns")
    return after - 1, data[after], after + 1


def _frame(marker: int, body: bytes) -> tuple[int, int, int]:
    """Returns the channels, height and width from a frame's header."""
    if marker not in _READ_FRAMES or len(body) < _FRAME.size:
        raise PictureRefused(
            "a lossless, hierarchical or arithmetically coded JPEG", "save it as a baseline or progressive JPEG"
        )
    bits, height, width, components = _FRAME.unpack_from(body)
    if bits != 8:  # noqa: PLR2004
        raise PictureRefused(f"{bits} bits a value", "save it with 8 bits")
    if components == 4:  # noqa: PLR2004
        raise PictureRefused("a CMYK picture", "save it in RGB or grey")
    if components not in _CHANNELS or len(body) != _FRAME.size + 3 * components:
        raise PictureRefused(f"a JPEG of {components} components", "save it in RGB or grey")
    return _CHANNELS[components], height, width
