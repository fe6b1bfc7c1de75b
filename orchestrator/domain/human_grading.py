"""What a contest format offers whose pictures are graded by people.

Organizers plan who grades what. Raters answer on a page that was handed out to them, whose answers organizers note when
they come back, or item by item where a service asks them. What was planned and answered are events of the contest's
ledger; the format's leaderboards follow from them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.samples import Labels, Pixels
from orchestrator.domain.season import Season
from orchestrator.domain.tasks import Task

NOT_GRADED = "not graded yet"
"""Why a board does not rank a submission of which no grade that counts is there: nothing but people keeps it back."""
PictureOf = Callable[[str | None, int], Pixels]
"""Takes a submission, or None for the task, and a picture's number; returns that picture, u8 [c, h, w]."""
PngOf = Callable[[Pixels], str]
"""Takes a picture u8 [c, h, w]; returns it as a PNG in base64, in its own size."""


@dataclass(frozen=True, slots=True)
class RaterProgress:
    """How far a rater is: `answered` of `asked` items, practice included.

    `status` is a word, `reason` says why where it needs saying, `report` what else is known of the rater's care.
    """

    rater: str
    answered: int
    asked: int
    status: str
    reason: str = ""
    report: str = ""


@dataclass(frozen=True, slots=True)
class GradingProgress:
    """How far the grading of a task is.

    `outstanding` answers are awaited of raters who were asked; `unassigned` ones need raters who were not asked yet.
    """

    raters: tuple[RaterProgress, ...]
    outstanding: int
    unassigned: int


@dataclass(frozen=True, slots=True)
class ReceivedAnswers:
    """A file of a rater's answers. What was handed in first counts, and a removed rater stays removed.

    `answered` says how many of its items had an answer that counts already; `removed` says why no answer of the rater
    counts, "" where they do or may.
    """

    event: FormatEvent
    answered: int
    removed: str = ""


@dataclass(frozen=True)
class GradedTask:
    """The task that is graded, its true labels [n], and what its contest and season are."""

    contest: str
    task: Task
    labels: Labels
    season: Season
    actor: str


CORRECTION_TIME = timedelta(seconds=60)
"""How long after the first answer to an item its rater may replace it, where a service asks."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer that a question allows. `key` is the key that chooses it, "" where none does."""

    value: str
    label: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about an item: exactly one choice answers it. `name` is that of the form's field."""

    name: str
    text: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class ItemForm:
    """How items are asked, the same for every item of a kind, whatever it shows.

    Attributes:
        title: what the kind is called.
        wording: the organizers' words.
        explanation: what a rater has to know before the first one.
        captions: what stands at each picture of an item, in the order of the pictures; "" for nothing.
        questions: what is asked.
        height: CSS pixels of a picture; every rater sees pictures equally large.
        width: CSS pixels of a picture.
    """

    title: str
    wording: str
    explanation: str
    captions: tuple[str, ...]
    questions: tuple[Question, ...]
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class RatedItem:
    """What is shown to one rater at one time. The token is all that the rater learns of which one it is."""

    token: str
    form: ItemForm
    practice: bool


@dataclass(frozen=True, slots=True)
class OwnAnswers:
    """How far one rater is.

    Attributes:
        next: the item that has to be answered now, None where nothing is left.
        following: the item after it, if the answer to it counts.
        last: the item that was answered last, None before the first answer.
        last_given: when that item was answered first.
        done: items that are answered, without practice.
        asked: items in all, without practice.
        practice_left: items of practice that are not answered.
        times: when each answer came, in order.
        pace: how long an answer takes in the middle; None before the fifth.
    """

    next: RatedItem | None
    following: RatedItem | None
    last: RatedItem | None
    last_given: datetime | None
    done: int
    asked: int
    practice_left: int
    times: tuple[datetime, ...]
    pace: timedelta | None

    def may_correct(self, now: datetime) -> bool:
        """Returns whether the last answer may still be replaced."""
        return self.last_given is not None and now - self.last_given <= CORRECTION_TIME


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """What a rater sent: the chosen value of each field by its name, and how it was looked at."""

    token: str
    choices: Mapping[str, str]
    milliseconds: int
    device_pixel_ratio: float = 1.0


class Rating(ABC):
    """Raters of one task at work: what they are asked and what they answered, folded from the contest's ledger."""

    @abstractmethod
    def apply(self, event: FormatEvent, time: datetime) -> None:
        """Learns an event of the format, in the order of the ledger, and when it was."""

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether no answer is taken any more."""

    @abstractmethod
    def forms(self, rater: str) -> Sequence[ItemForm]:
        """Returns the kinds of items that a rater is asked, in the order in which they come; none for who has none."""

    @abstractmethod
    def own_answers(self, rater: str) -> OwnAnswers | None:
        """Returns how far a rater is, None for who is asked nothing."""

    @abstractmethod
    def item(self, rater: str, token: str) -> RatedItem | None:
        """Returns an item of a rater's own, None where it is none."""

    @abstractmethod
    def is_answered(self, token: str) -> bool:
        """Returns whether there is an answer to an item."""

    @abstractmethod
    def pictures(self, token: str, picture_of: PictureOf) -> Sequence[Pixels]:
        """Returns the pictures of an item, u8 [c, h, w] each, in the order of its form's captions."""

    @abstractmethod
    def answer_event(self, rater: str, given: GivenAnswer) -> FormatEvent:
        """Returns the event of an answer to an item of a rater's own. A later one to the same item replaces it.

        Raises:
            Rejected: the choices do not answer the item's questions.
        """


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
            raters: who may be asked; who was removed is not.
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
    def answers(
        self, graded: GradedTask, text: str, *, csv: bool, before: Sequence[FormatEvent] = ()
    ) -> ReceivedAnswers:
        """Returns the event of answers that a page saved, as JSON or as CSV, and what it changes.

        Args:
            graded: the task.
            text: the file.
            csv: whether it is the CSV.
            before: what will be noted before it and is not in the season yet.

        Raises:
            Rejected: with everything that is wrong with them.
        """

    @abstractmethod
    def rating(self, task: Task) -> Rating:
        """Returns raters of a task before the first event, for a service that asks them item by item."""

    @abstractmethod
    def progress(self, graded: GradedTask) -> GradingProgress:
        """Returns how far it is. Raises Rejected where nothing was planned."""
