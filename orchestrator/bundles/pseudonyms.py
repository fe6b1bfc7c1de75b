"""The ids of pictures in a sealed bundle, and the commitments to their withheld labels and answers.

Ids and salts are derived from the round's secret, which a full bundle reveals.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.ids import canonical_json
from orchestrator.domain.outcomes import Answers
from orchestrator.domain.samples import Labels

ID_DIGITS = 16


@dataclass(frozen=True, slots=True)
class PicturePseudonyms:
    """The ids and salts of one round's pictures."""

    secret: bytes

    def picture_id(self, picture: int) -> str:
        """Returns a picture's opaque id: sixteen hex digits that do not reveal its position."""
        return self._mac("picture", picture).hex()[:ID_DIGITS]

    def salt(self, picture: int) -> bytes:
        """Returns the salt of 32 bytes that prevents guessing the label and answers of a picture's commitment."""
        return self._mac("salt", picture)

    def order(self, count: int) -> list[int]:
        """Returns the pictures in the order of their ids, which is that of a sealed bundle."""
        return sorted(range(count), key=self.picture_id)

    def _mac(self, use: str, picture: int) -> bytes:
        return hmac.new(self.secret, canonical_json(["bundle", use, picture]).encode(), hashlib.sha256).digest()


def commitments(pseudonyms: PicturePseudonyms, labels: Labels, cells: Sequence[Answers]) -> list[str]:
    """Returns one commitment per picture: the SHA-256 of its salt, its position, its label and its answers.

    Position, label and answers are little-endian 32-bit integers; `cells` are the answers [n] of each cell.
    """
    rows: NDArray[np.int32] = np.empty((len(labels), len(cells) + 2), "<i4")
    rows[:, 0] = np.arange(len(labels))
    rows[:, 1] = labels
    for column, answers in enumerate(cells, start=2):
        rows[:, column] = answers
    return [
        "sha256:" + hashlib.sha256(pseudonyms.salt(picture) + row.tobytes()).hexdigest()
        for picture, row in enumerate(rows)
    ]
