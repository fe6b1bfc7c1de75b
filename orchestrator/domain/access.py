"""What an attack may ask the defence about while it makes its pictures (rule X6)."""

from dataclasses import dataclass
from enum import StrEnum


class AccessKind(StrEnum):
    """What a query is answered with."""

    NONE = "none"
    """Nothing may be asked: the attack makes its pictures once, for all defences."""
    DECISION = "decision"
    """A label."""
    SCORES = "scores"
    """A label, or a score for each class, as the attack wants."""
    GRADIENT = "gradient"
    """A label, scores, or the gradient of the loss for the true label, as the attack wants."""


@dataclass(frozen=True, slots=True)
class Access:
    """The access model of a contest.

    `queries` is how many pictures a defence may be asked about for each picture of the task, where a gradient counts as
    `gradient_price` pictures; `batch` is how many pictures are in one query at most. Scores are rounded to `decimals`
    where that is given, and with `top_score_only` all but the largest are withheld. `reply_seconds` is the grid on
    which replies are sent, so that how long one took says less; 0 sends them at once.
    """

    kind: AccessKind = AccessKind.NONE
    queries: int = 1000
    batch: int = 64
    gradient_price: int = 1
    decimals: int | None = None
    top_score_only: bool = False
    reply_seconds: float = 0.0

    @property
    def allows_queries(self) -> bool:
        """Whether an attack may ask anything."""
        return self.kind is not AccessKind.NONE

    @property
    def sandboxes_per_job(self) -> int:
        """How many sandboxes a job runs at the same time: an attack that queries has a defence beside it."""
        return 2 if self.allows_queries else 1

    @property
    def shows_scores(self) -> bool:
        """Whether it may ask for scores."""
        return self.kind in {AccessKind.SCORES, AccessKind.GRADIENT}
