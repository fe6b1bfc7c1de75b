"""What a contest format offers whose pictures are graded by people, without a server.

Organizers plan who grades what, hand out one page to each rater and note the answers that come back. What was planned
and answered are events of the contest's ledger; the format's leaderboards follow from them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.samples import Labels, Pixels
from orchestrator.domain.season import Season
from orchestrator.domain.tasks import Task

PictureOf = Callable[[str | None, int], Pixels]
"""Takes a submission, or None for the task, and a picture's number; returns that picture, u8 [c, h, w]."""
PngOf = Callable[[Pixels], str]
"""Takes a picture u8 [c, h, w]; returns it as a PNG in base64, in its own size."""


@dataclass(frozen=True, slots=True)
class RaterProgress:
    """How far a rater is: `answered` of `asked` items. `status` is a word, `reason` says why where it needs saying."""

    rater: str
    answered: int
    asked: int
    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GradingProgress:
    """How far the grading of a task is.

    `outstanding` answers are awaited of raters who were asked; `unassigned` ones need raters who were not asked yet.
    """

    raters: tuple[RaterProgress, ...]
    outstanding: int
    unassigned: int


@dataclass(frozen=True)
class GradedTask:
    """The task that is graded, its true labels [n], and what its contest and season are."""

    contest: str
    task: Task
    labels: Labels
    season: Season
    actor: str


class HumanGrading(ABC):
    """Grading by people, as one format has it."""

    @abstractmethod
    def plan(self, graded: GradedTask, submissions: Sequence[str], raters: Sequence[str], secret: bytes) -> FormatEvent:
        """Returns the event of a new plan, drawn from the round's secret: who grades what of these submissions.

        Raises:
            Rejected: with every reason why it cannot be planned so.
        """

    @abstractmethod
    def supplement(
        self, graded: GradedTask, appeals: Mapping[str, Sequence[int]], raters: Sequence[str], secret: bytes
    ) -> FormatEvent:
        """Returns the event of a plan that asks for what is missing, and for pictures of which teams appeal.

        Args:
            graded: the task.
            appeals: the numbers of pictures, by submission.
            raters: who may be asked.
            secret: the round's.

        Raises:
            Rejected: nothing is missing, or with every reason why it cannot be planned so.
        """

    @abstractmethod
    def pages(self, graded: GradedTask, picture_of: PictureOf, png_of: PngOf) -> Iterator[tuple[str, str]]:
        """Yields the name of a file and the page in it, for every rater of the latest plan.

        Raises:
            Rejected: nothing was planned.
        """

    @abstractmethod
    def answers(self, graded: GradedTask, text: str, *, csv: bool) -> FormatEvent:
        """Returns the event of answers that a page saved, as JSON or as CSV.

        Raises:
            Rejected: with everything that is wrong with them.
        """

    @abstractmethod
    def progress(self, graded: GradedTask) -> GradingProgress:
        """Returns how far it is. Raises Rejected where nothing was planned."""
