"""What an attack may ask the defence about while it makes its pictures (rule X6)."""

from dataclasses import dataclass
from enum import StrEnum
from math import prod


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


class Transcript(StrEnum):
    """What is kept of the queries of an attack."""

    DIGEST = "digest"
    """Counts and answers, and one digest of all that was asked and answered in a step."""
    FULL = "full"
    """Also what the digest is of: the pictures that were asked about, scores and gradients."""


MAX_TRANSCRIPT_BYTES = 128 * 1024**2
"""The most that the transcript of one attack on one defence may take, and the gradients of one step with which another
pod goes on: a driver holds them several times while it writes them."""
_VALUE_BYTES = 4


@dataclass(frozen=True, slots=True)
class Access:
    """The access model of a contest.

    `queries` is how many queries each picture of the task may cost. Each picture that a defence is asked about costs
    the price of its kind: `decision_price`, `scores_price` or `gradient_price`. `batch` is how many pictures are in one
    query at most. Scores are rounded to `decimals` where that is given, and with `top_score_only` all but the largest
    are withheld. `reply_seconds` is the grid on which replies are sent, so that how long one took says less; 0 sends
    them at once. `transcript` says what is kept of the queries.
    """

    kind: AccessKind = AccessKind.NONE
    queries: int = 1000
    batch: int = 64
    decision_price: int = 1
    scores_price: int = 1
    gradient_price: int = 1
    decimals: int | None = None
    top_score_only: bool = False
    reply_seconds: float = 0.0
    transcript: Transcript = Transcript.DIGEST

    @property
    def allows_queries(self) -> bool:
        """Whether an attack may ask anything."""
        return self.kind is not AccessKind.NONE

    @property
    def prices(self) -> dict[AccessKind, int]:
        """What one picture of a query costs, for each kind of query that is allowed."""
        prices = {}
        if self.allows_queries:
            prices[AccessKind.DECISION] = self.decision_price
        if self.shows_scores:
            prices[AccessKind.SCORES] = self.scores_price
        if self.kind is AccessKind.GRADIENT:
            prices[AccessKind.GRADIENT] = self.gradient_price
        return prices

    @property
    def prices_in_words(self) -> str:
        """Which queries count as more than one, such as `a gradient counts as 10`; empty where none does."""
        nouns = {
            AccessKind.DECISION: "a label counts",
            AccessKind.SCORES: "scores count",
            AccessKind.GRADIENT: "a gradient counts",
        }
        return ", ".join(f"{nouns[kind]} as {price:,}" for kind, price in self.prices.items() if price > 1)

    @property
    def most_pictures(self) -> int:
        """About how many pictures the defence may be asked for each picture of the task, at the lowest price."""
        return self.queries // min(self.prices.values()) if self.prices else 0

    def largest_transcript(self, pictures: int, shape: tuple[int, int, int], classes: int) -> int:
        """Returns how many bytes the transcript about so many pictures of a task takes at most."""
        values = prod(shape)
        sizes = {
            AccessKind.DECISION: values + _VALUE_BYTES * classes,
            AccessKind.SCORES: values + _VALUE_BYTES * classes,
            AccessKind.GRADIENT: values + _VALUE_BYTES * (classes + values),
        }
        return pictures * max((self.queries // price * sizes[kind] for kind, price in self.prices.items()), default=0)

    @property
    def sandboxes_per_job(self) -> int:
        """How many sandboxes a job runs at the same time: an attack that queries has a defence beside it."""
        return 2 if self.allows_queries else 1

    @property
    def shows_scores(self) -> bool:
        """Whether it may ask for scores."""
        return self.kind in {AccessKind.SCORES, AccessKind.GRADIENT}
