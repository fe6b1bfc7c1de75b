"""One picture of a file, before it is decoded."""

from dataclasses import dataclass

from orchestrator.domain.submissions import PictureFormat


class PictureRefused(Exception):
    """A picture that is not read; the message says why, and `remedy` what to do."""

    def __init__(self, what: str, remedy: str = "save it again in another program") -> None:
        super().__init__(what)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class PlainPicture:
    """A JPEG or PNG without anything that does not decide the pixels, and what its header says.

    Attributes:
        format: JPEG or PNG.
        channels: 1 (grey) or 3 (colour).
        height: in pixels, as `width` is.
        width: not checked against anything yet.
        data: the file without its metadata.
        packed_rows: of a PNG, its compressed rows; empty for a JPEG.
    """

    format: PictureFormat
    channels: int
    height: int
    width: int
    data: bytes
    packed_rows: bytes = b""
