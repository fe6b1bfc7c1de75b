"""Whether a picture is valid (C7): the majority of three raters, of five where the three do not agree."""

from dataclasses import dataclass

from orchestrator.formats.attack_set.grading.rules import APPEAL_RATERS, MINIMUM_RATERS_PER_PICTURE, SPLIT_RATERS


@dataclass(frozen=True, slots=True)
class Votes:
    """How many raters who count find a picture valid, and how many do not."""

    valid: int = 0
    invalid: int = 0

    @property
    def total(self) -> int:
        """How many there are."""
        return self.valid + self.invalid


def votes_missing(votes: Votes) -> int:
    """Returns how many more raters the decision needs: three in all, and five unless three are of one mind."""
    if votes.total < MINIMUM_RATERS_PER_PICTURE:
        return MINIMUM_RATERS_PER_PICTURE - votes.total
    if max(votes.valid, votes.invalid) >= MINIMUM_RATERS_PER_PICTURE:
        return 0
    return SPLIT_RATERS - votes.total


def decide(votes: Votes, appeal: Votes) -> bool | None:
    """Returns whether a picture is valid, None where that is undecided.

    After an appeal all votes count, with those of the appeal. More than half of them have to find the picture valid.
    """
    if votes_missing(votes):
        return None
    return 2 * (votes.valid + appeal.valid) > votes.total + appeal.total


def appeal_votes_missing(votes: Votes) -> int:
    """Returns how many more raters an appeal needs."""
    return max(0, APPEAL_RATERS - votes.total)
