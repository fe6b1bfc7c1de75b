"""A picture file before it is decoded, and the error that refuses one."""

from dataclasses import dataclass

from orchestrator.domain.submissions import PictureFormat


class PictureRefused(Exception):
    """A picture file that is refused; the message says why, and `remedy` what to do."""

    def __init__(self, what: str, remedy: str = "save it again in another program") -> None:
        super().__init__(what)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class PlainPicture:
    """A JPEG or PNG with only what determines its pixels, and the values of its header.

    Attributes:
        format: JPEG or PNG.
        channels: 1 (grey) or 3 (colour).
        height: in pixels; neither it nor `width` is checked yet.
        width: in pixels.
        data: the file without its metadata.
        packed_rows: the compressed rows of a PNG; empty for a JPEG.
    """

    format: PictureFormat
    channels: int
    height: int
    width: int
    data: bytes
    packed_rows: bytes = b""
