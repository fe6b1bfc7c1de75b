"""Decodes one picture from strangers (rule C2).

The first bytes decide the format, not the name. `jpeg` and `png` read the file's structure first: only 8-bit grey and
RGB are accepted, the size is checked in the header, and a file that is cut short or continues after its end is refused.
Pillow then decodes the file without its metadata, with only the decoder of that format.

- Pixels are used as they are stored: an EXIF orientation and a colour profile are ignored.
- CMYK, palettes, alpha channels, transparent colours, other depths than 8 bits, interlaced PNG, animations and JPEG
  other than baseline and progressive are refused. A JPEG that lists further pictures (MPO) has bytes after its end.
- If the coded data of a JPEG is damaged but its end is there, the result is whatever the decoder returns.
"""

import io
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.samples import Pixels
from orchestrator.domain.submissions import PictureFormat
from orchestrator.domain.text import printable
from orchestrator.picture_files import jpeg, png
from orchestrator.picture_files.picture import PictureRefused, PlainPicture

MAX_SIDE = 4096
"""The largest height or width of a picture."""
_DECODE_ERRORS = (OSError, ValueError, SyntaxError, EOFError)
"""Errors that Pillow raises for damaged pixels."""
_COLOURS = {1: "grey", 3: "in colour"}
_OTHER_MAGICS = {
    b"GIF8": "a GIF",
    b"BM": "a BMP",
    b"RIFF": "a WebP",
    b"II*\0": "a TIFF",
    b"MM\0*": "a TIFF",
    b"PK": "a zip",
    b"%PDF": "a PDF",
    b"\x93NUMPY": "a NumPy array",
}


def decode_picture(
    data: bytes, formats: Collection[PictureFormat], shape: tuple[int, int, int] | None = None
) -> tuple[Pixels, PictureFormat]:
    """Returns the pixels of a picture file u8 [c, h, w] with c of 1 or 3, and its format.

    Args:
        data: the file's bytes, whose number the caller has limited.
        formats: the accepted formats.
        shape: the required channels, height and width; None for any with sides of at most `MAX_SIDE`.

    Raises:
        PictureRefused: it has another format or shape, or cannot be decoded.
    """
    picture = _plain_picture(data, formats)
    _check_shape(picture, shape)
    if picture.format is PictureFormat.PNG:
        png.check_rows(picture)
    return _decoded(picture), picture.format


def format_of(data: bytes) -> PictureFormat | None:
    """Returns the format by the first bytes of a file: JPEG, PNG or None."""
    if data.startswith(jpeg.MAGIC):
        return PictureFormat.JPEG
    return PictureFormat.PNG if data.startswith(png.MAGIC) else None


def decoder_versions() -> str:
    """Returns the libraries that decode pictures, with versions: two decoders may differ by a step of 1/255."""
    import PIL  # noqa: PLC0415  every command imports this module, and few need Pillow
    from PIL import features  # noqa: PLC0415

    turbo = features.version("libjpeg_turbo")
    library = f"libjpeg_turbo {turbo}" if turbo else f"libjpeg {features.version('jpg') or 'unknown'}"
    return f"pillow {PIL.__version__}, {library}"


def _plain_picture(data: bytes, formats: Collection[PictureFormat]) -> PlainPicture:
    taken = " or ".join(one.upper() for one in PictureFormat if one in formats and one is not PictureFormat.NPZ)
    found = format_of(data)
    if found is None:
        known = next((name for magic, name in _OTHER_MAGICS.items() if data.startswith(magic)), "no picture")
        raise PictureRefused(known if data else "an empty file", f"save it as {taken}")
    if found not in formats:
        raise PictureRefused(f"{found.upper()} data", f"save it as {taken}")
    return jpeg.plain_jpeg(data) if found is PictureFormat.JPEG else png.plain_png(data)


def _check_shape(picture: PlainPicture, shape: tuple[int, int, int] | None) -> None:
    channels, height, width = shape or (picture.channels, picture.height, picture.width)
    if (picture.height, picture.width) != (height, width):
        raise PictureRefused(
            f"{picture.width} x {picture.height} pixels, and has to be {width} x {height}", "save it in that size"
        )
    if picture.channels != channels:
        raise PictureRefused(
            f"{_COLOURS[picture.channels]}, and has to be {_COLOURS[channels]}",
            "save it in RGB" if channels > 1 else "save it in grey",
        )
    if not 0 < min(height, width) <= max(height, width) <= MAX_SIDE:
        raise PictureRefused(f"{width} x {height} pixels, at most {MAX_SIDE} a side", "save it in a smaller size")


def _decoded(picture: PlainPicture) -> Pixels:
    """Returns the pixels u8 [c, h, w] that Pillow decodes."""
    from PIL import Image  # noqa: PLC0415  as above

    try:
        with Image.open(io.BytesIO(picture.data), formats=[picture.format.upper()]) as image:
            if image.size != (picture.width, picture.height) or image.mode != ("L", "RGB")[picture.channels > 1]:
                raise PictureRefused(f"a picture of the kind {image.mode}, {image.size[0]} x {image.size[1]}")
            pixels: NDArray[np.uint8] = np.asarray(image, np.uint8)
    except _DECODE_ERRORS as error:
        raise PictureRefused(f"it cannot be decoded: {printable(str(error), 120)}") from None
    channels_last = pixels.reshape(picture.height, picture.width, picture.channels)
    return np.ascontiguousarray(np.moveaxis(channels_last, 2, 0))
