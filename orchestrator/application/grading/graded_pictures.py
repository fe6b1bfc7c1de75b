"""The pictures that people grade: read from a contest's blobs, and encoded as new PNGs to be shown."""

import io

from PIL import Image

from orchestrator.domain.samples import Pixels
from orchestrator.domain.season import Season
from orchestrator.ledger.stores.base import Blobs, get_array


class GradedPictures:
    """The pictures of one task: its own, u8 [n, c, h, w], and those of submissions, which are read once and kept."""

    def __init__(self, blobs: Blobs, originals: Pixels) -> None:
        self._blobs, self._originals = blobs, originals
        self._submitted: dict[str, Pixels] = {}

    def picture(self, season: Season, submission: str | None, position: int) -> Pixels:
        """Returns a picture of a submission, or of the task for None, u8 [c, h, w]. Raises StoreFault if it is lost."""
        if submission is not None and submission not in self._submitted:
            self._submitted[submission] = get_array(self._blobs, season.entries[submission].pixels)
        found: Pixels = self._originals[position] if submission is None else self._submitted[submission][position]
        return found


def encode_png(picture: Pixels) -> bytes:
    """Returns a picture u8 [c, h, w] as a PNG in its own size, without metadata; all pictures use the same encoder."""
    file = io.BytesIO()
    grey = picture.shape[0] == 1
    Image.fromarray(picture[0] if grey else picture.transpose(1, 2, 0)).save(file, "PNG")
    return file.getvalue()
