"""Checks a PNG from strangers, chunk by chunk, before it is decoded (ISO/IEC 15948, W3C PNG).

The decoder gets only the header and the rows: texts, times, EXIF, colour profiles and gamma are removed, so no parser
for them is reached. Chunks that would change how the rows look (transparency, further frames) are refused. Nothing may
follow the end.
"""

import struct
import zlib
from collections.abc import Iterator

from orchestrator.domain.submissions import PictureFormat
from orchestrator.picture_files.picture import PictureRefused, PlainPicture

MAGIC = b"\x89PNG\r\n\x1a\n"
_HEADER = struct.Struct(">2L5B")
_CHANNELS = {0: 1, 2: 3}
_REFUSED_COLOURS = {3: "a palette", 4: "an alpha channel", 6: "an alpha channel"}
_REFUSED_CHUNKS = {
    b"tRNS": ("a transparent colour", "save it without transparency"),
    b"acTL": ("an animation", "save a single picture"),
    b"fcTL": ("an animation", "save a single picture"),
    b"fdAT": ("an animation", "save a single picture"),
}
_CRITICAL_CHUNKS = frozenset({b"PLTE", b"IDAT"})
_CUT = "it was cut short: save it again"


def plain_png(data: bytes) -> PlainPicture:
    """Returns a PNG of 8 bits, grey or RGB, not interlaced, without its metadata. Raises PictureRefused."""
    chunks = _chunks(data)
    name, header = next(chunks)
    if name != b"IHDR" or len(header) != _HEADER.size:
        raise PictureRefused("a PNG without a header")
    channels, height, width = _shape(header)
    rows: list[bytes] = []
    before = name
    for name, body in chunks:
        if name in _REFUSED_CHUNKS:
            what, remedy = _REFUSED_CHUNKS[name]
            raise PictureRefused(f"a PNG with {what}", remedy)
        if name == b"IDAT":
            if rows and before != b"IDAT":
                raise PictureRefused("a PNG with rows in two places")
            rows.append(body)
        elif name[:1].isupper() and name not in _CRITICAL_CHUNKS:
            raise PictureRefused("a PNG with a chunk that is not read here")
        before = name
    packed = b"".join(rows)
    plain = MAGIC + _chunk(b"IHDR", header) + _chunk(b"IDAT", packed) + _chunk(b"IEND", b"")
    return PlainPicture(PictureFormat.PNG, channels, height, width, plain, packed)


def check_rows(picture: PlainPicture) -> None:
    """Raises PictureRefused unless a PNG's rows inflate to exactly as many bytes as its header says.

    Decoders leave missing rows black, and ignore additional rows.
    """
    expected = picture.height * (1 + picture.width * picture.channels)
    inflate = zlib.decompressobj()
    try:
        rows = inflate.decompress(picture.packed_rows, expected + 1)
    except zlib.error as error:
        raise PictureRefused(f"rows that cannot be inflated: {error}") from None
    if len(rows) != expected or not inflate.eof or inflate.unused_data:
        raise PictureRefused("more or fewer rows than its header says", _CUT)


def _shape(header: bytes) -> tuple[int, int, int]:
    """Returns the channels, height and width from a header."""
    width, height, bits, colour, *methods = _HEADER.unpack(header)
    if colour in _REFUSED_COLOURS:
        raise PictureRefused(f"a PNG with {_REFUSED_COLOURS[colour]}", "save it in RGB or grey")
    if bits != 8:  # noqa: PLR2004
        raise PictureRefused(f"{bits} bits a value", "save it with 8 bits")
    if colour not in _CHANNELS:
        raise PictureRefused(f"a PNG of the colour type {colour}, which there is not")
    if any(methods):
        raise PictureRefused("an interlaced PNG, or one of an unknown method", "save it without interlacing")
    return _CHANNELS[colour], height, width


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields name and content of every chunk before the end. Raises PictureRefused if bytes follow the end."""
    at = len(MAGIC)
    while True:
        length, name = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        after = at + 12 + length
        if after > len(data) or len(name) < 4:  # noqa: PLR2004
            raise PictureRefused("a PNG without an end", _CUT)
        body = data[at + 8 : after - 4]
        if zlib.crc32(name + body) != int.from_bytes(data[after - 4 : after]):
            raise PictureRefused("a PNG with a wrong checksum", "it is damaged: save it again")
        if name == b"IEND":
            break
        yield name, body
        at = after
    if after != len(data):
        raise PictureRefused(f"{len(data) - after} bytes after the end of the picture", "save it again without them")
    if at == len(MAGIC):
        raise PictureRefused("a PNG without a header")


def _chunk(name: bytes, body: bytes) -> bytes:
    return len(body).to_bytes(4) + name + body + zlib.crc32(name + body).to_bytes(4)
