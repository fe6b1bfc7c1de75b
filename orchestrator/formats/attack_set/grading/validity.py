"""Decides whether a picture is valid (C7): by the majority of three raters, or of five if three do not agree."""

from dataclasses import dataclass

from orchestrator.formats.attack_set.grading.rules import APPEAL_RATERS, MINIMUM_RATERS_PER_PICTURE, SPLIT_RATERS


@dataclass(frozen=True, slots=True)
class Votes:
    """How many of the raters who count call a picture valid, and how many do not."""

    valid: int = 0
    invalid: int = 0

    @property
    def total(self) -> int:
        """The number of votes."""
        return self.valid + self.invalid


def votes_missing(votes: Votes) -> int:
    """Returns how many more raters a decision needs: three in all, or five unless three of them agree."""
    if votes.total < MINIMUM_RATERS_PER_PICTURE:
        return MINIMUM_RATERS_PER_PICTURE - votes.total
    if max(votes.valid, votes.invalid) >= MINIMUM_RATERS_PER_PICTURE:
        return 0
    return SPLIT_RATERS - votes.total


def decide(votes: Votes, appeal: Votes) -> bool | None:
    """Returns whether a picture is valid, None if that is undecided.

    More than half of all votes, including those of an appeal, have to call the picture valid.
    """
    if votes_missing(votes):
        return None
    return 2 * (votes.valid + appeal.valid) > votes.total + appeal.total


def appeal_votes_missing(votes: Votes) -> int:
    """Returns how many more raters an appeal needs."""
    return max(0, APPEAL_RATERS - votes.total)
