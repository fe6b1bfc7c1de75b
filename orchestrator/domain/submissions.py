"""Submissions, and the roster of a round."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Side(StrEnum):
    """Attack or defence."""

    ATTACK = "attack"
    DEFENCE = "defence"


class PictureFormat(StrEnum):
    """The kind of file in which pictures may be submitted (rule C2)."""

    JPEG = "jpeg"
    PNG = "png"
    NPZ = "npz"
    """All pictures in one array of a NumPy archive."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One admitted version of one team's entry: a program, or pictures that an attack made elsewhere (rule C2).

    `id` is a slug, unique in the contest. `digest` identifies the program that is started, or the archive of pictures;
    it is fixed at admission. `submitted` is an ISO 8601 time in UTC, "" if the contest file gives none. For pictures,
    `pixels` is the digest of the blob with the decoded array, u8 [n, c, h, w], and `decoder` names the libraries that
    decoded it, since two libraries may differ by a step; both are empty for a program.
    """

    id: str
    name: str
    team: str
    side: Side
    digest: str
    image: str
    baseline: bool = False
    submitted: str = ""
    pixels: str = ""
    decoder: str = ""

    @property
    def is_pictures(self) -> bool:
        """Whether it consists of pictures, so that nothing is started for it."""
        return bool(self.pixels)


@dataclass(frozen=True)
class Roster:
    """The submissions admitted to a round, in the order of the contest file."""

    submissions: tuple[Submission, ...]

    def __iter__(self) -> Iterator[Submission]:
        return iter(self.submissions)

    def __getitem__(self, submission_id: str) -> Submission:
        for submission in self.submissions:
            if submission.id == submission_id:
                return submission
        raise KeyError(submission_id)

    def by_side(self, side: Side) -> tuple[Submission, ...]:
        """Returns the submissions of one side."""
        return tuple(s for s in self.submissions if s.side is side)
