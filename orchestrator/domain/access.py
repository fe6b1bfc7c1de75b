"""The access of an attack to the defence while it makes its pictures (rule X6)."""

from dataclasses import dataclass
from enum import StrEnum
from math import prod


class AccessKind(StrEnum):
    """What a query is answered with."""

    NONE = "none"
    """The attack may ask nothing. It makes its pictures once, for all defences."""
    DECISION = "decision"
    """A label."""
    SCORES = "scores"
    """A label, or a score for each class, whichever the attack requests."""
    GRADIENT = "gradient"
    """A label, scores, or the gradient of the loss for the true label, whichever the attack requests."""


class Transcript(StrEnum):
    """What is kept of the queries of an attack."""

    DIGEST = "digest"
    """Counts and answers, and one digest of all queries and replies of a step."""
    FULL = "full"
    """Also the data behind the digest: the pictures that were asked about, scores and gradients."""


MAX_TRANSCRIPT_BYTES = 128 * 1024**2
"""The largest transcript of one attack on one defence, in bytes, and the largest gradients of one step that are handed
to another pod. A driver holds several copies while it writes them."""
_VALUE_BYTES = 4


@dataclass(frozen=True, slots=True)
class Access:
    """The access model of a contest.

    `queries` is the query budget of each picture of the task. Each picture that a defence is asked about costs the
    price of the kind of query: `decision_price`, `scores_price` or `gradient_price`. `batch` is the largest number of
    pictures in one query. Scores are rounded to `decimals` if that is given, and with `top_score_only` all but the
    largest are withheld. Replies are sent at multiples of `reply_seconds`, so that the time of a reply reveals less; 0
    sends them at once. `transcript` says what is kept of the queries.
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
        """The prices above 1 in words, such as `a gradient counts as 10`; empty if there are none."""
        nouns = {
            AccessKind.DECISION: "a label counts",
            AccessKind.SCORES: "scores count",
            AccessKind.GRADIENT: "a gradient counts",
        }
        return ", ".join(f"{nouns[kind]} as {price:,}" for kind, price in self.prices.items() if price > 1)

    @property
    def most_pictures(self) -> int:
        """The largest number of queried pictures for each picture of the task, at the lowest price."""
        return self.queries // min(self.prices.values()) if self.prices else 0

    def largest_transcript(self, pictures: int, shape: tuple[int, int, int], classes: int) -> int:
        """Returns the largest possible size, in bytes, of the transcript for so many pictures of a task."""
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
        """Whether an attack may ask for scores."""
        return self.kind in {AccessKind.SCORES, AccessKind.GRADIENT}
