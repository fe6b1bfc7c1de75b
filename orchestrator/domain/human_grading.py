"""The interface of a contest format whose pictures are graded by people.

Organizers plan who grades what. Raters answer on a page that organizers send them, whose answers the organizers record
when they get them, or item by item on the site. Plans and answers are events of the contest's ledger; the format
computes its leaderboards from them.
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
"""The reason on a leaderboard for a submission without a valid grade: it waits only for raters."""
PictureOf = Callable[[str | None, int], Pixels]
"""Takes a submission, or None for the task, and a picture's number; returns that picture, u8 [c, h, w]."""
PngOf = Callable[[Pixels], str]
"""Takes a picture u8 [c, h, w]; returns it as a PNG in base64, in its own size."""


@dataclass(frozen=True, slots=True)
class RaterProgress:
    """The progress of a rater: `answered` of `asked` items, practice included.

    `status` is one word, `reason` explains it if needed, and `report` says more about the quality of the rater's
    answers.
    """

    rater: str
    answered: int
    asked: int
    status: str
    reason: str = ""
    report: str = ""


@dataclass(frozen=True, slots=True)
class GradingProgress:
    """The progress of grading on a task.

    `outstanding` answers are expected from raters who were asked; `unassigned` answers need further raters.
    """

    raters: tuple[RaterProgress, ...]
    outstanding: int
    unassigned: int


@dataclass(frozen=True, slots=True)
class ReceivedAnswers:
    """A file of a rater's answers. The first answer to an item counts, and a removed rater stays removed.

    `answered` is how many of its items had a valid answer already; `removed` says why no answer of the rater counts, ""
    if they count or may count.
    """

    event: FormatEvent
    answered: int
    removed: str = ""


@dataclass(frozen=True)
class GradedTask:
    """The task that is graded, its true labels [n], its contest and its season."""

    contest: str
    task: Task
    labels: Labels
    season: Season
    actor: str


CORRECTION_TIME = timedelta(seconds=60)
"""How long after the first answer to an item its rater may replace the answer on the site."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer that a question allows. `key` is the key on the keyboard that chooses it, "" if there is none."""

    value: str
    label: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about an item, answered by exactly one choice. `name` is that of the form's field."""

    name: str
    text: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class ItemForm:
    """The form of a kind of items, the same for every item of the kind, whatever the item shows.

    Attributes:
        title: the name of the kind.
        wording: the organizers' wording of the question.
        explanation: what a rater has to know before the first item.
        captions: the caption of each picture of an item, in the order of the pictures; "" for none.
        questions: the questions about an item.
        height: CSS pixels of a picture; every rater sees pictures in the same size.
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
    """An item as one rater sees it. Only the token identifies it to the rater."""

    token: str
    form: ItemForm
    practice: bool


@dataclass(frozen=True, slots=True)
class OwnAnswers:
    """The progress of one rater on the site.

    Attributes:
        next: the item to answer now, None if all are answered.
        following: the item after it, if the answer to it counts.
        last: the latest item that was answered, None before the first answer.
        last_given: when that item was answered first.
        done: how many items are answered, without practice.
        asked: how many items there are, without practice.
        practice_left: how many practice items are not answered.
        times: the time of each answer, in order.
        pace: the median time of an answer; None before the fifth answer.
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
    """A rater's answer to an item: the chosen value of each field by its name, and how the rater viewed the item."""

    token: str
    choices: Mapping[str, str]
    milliseconds: int
    device_pixel_ratio: float = 1.0


class Rating(ABC):
    """The items and answers of the raters of one task, folded from the contest's ledger."""

    @abstractmethod
    def apply(self, event: FormatEvent, time: datetime) -> None:
        """Applies an event of the format, with its time. Events have to come in the order of the ledger."""

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether no more answers are accepted."""

    @abstractmethod
    def forms(self, rater: str) -> Sequence[ItemForm]:
        """Returns the forms of a rater's items, in the order of the items; none for a rater without items."""

    @abstractmethod
    def own_answers(self, rater: str) -> OwnAnswers | None:
        """Returns the progress of a rater, None for a rater without items."""

    @abstractmethod
    def item(self, rater: str, token: str) -> RatedItem | None:
        """Returns one of a rater's own items, None if the token names none of them."""

    @abstractmethod
    def is_answered(self, token: str) -> bool:
        """Returns whether an item has an answer."""

    @abstractmethod
    def pictures(self, token: str, picture_of: PictureOf) -> Sequence[Pixels]:
        """Returns the pictures of an item, u8 [c, h, w] each, in the order of its form's captions."""

    @abstractmethod
    def answer_event(self, rater: str, given: GivenAnswer) -> FormatEvent:
        """Returns the event that records an answer to one of a rater's own items. A later answer replaces it.

        Raises:
            Rejected: the choices do not answer the item's questions.
        """


class HumanGrading(ABC):
    """A format's grading by people."""

    @abstractmethod
    def plan(self, graded: GradedTask, submissions: Sequence[str], raters: Sequence[str], secret: bytes) -> FormatEvent:
        """Returns the event of a new plan, drawn from the round's secret: which rater grades which pictures.

        Raises:
            Rejected: with every reason why it cannot be planned so.
        """

    @abstractmethod
    def supplement(
        self, graded: GradedTask, appeals: Mapping[str, Sequence[int]], raters: Sequence[str], secret: bytes
    ) -> FormatEvent:
        """Returns the event of a plan for the missing answers, and for pictures whose teams appeal.

        Args:
            graded: the task.
            appeals: the numbers of pictures, by submission.
            raters: who may be asked; removed raters are not.
            secret: the round's secret.

        Raises:
            Rejected: nothing is missing, or with every reason why such a plan is impossible.
        """

    @abstractmethod
    def pages(self, graded: GradedTask, picture_of: PictureOf, png_of: PngOf) -> Iterator[tuple[str, str]]:
        """Yields a file name and its page, for every rater of the latest plan.

        Raises:
            Rejected: there is no plan.
        """

    @abstractmethod
    def answers(
        self, graded: GradedTask, text: str, *, csv: bool, before: Sequence[FormatEvent] = ()
    ) -> ReceivedAnswers:
        """Returns the event that records the answers that a page saved, as JSON or as CSV, and its effect.

        Args:
            graded: the task.
            text: the text of the file.
            csv: whether the file is CSV, not JSON.
            before: events that will be recorded before it and are not in the season yet.

        Raises:
            Rejected: with everything that is wrong with them.
        """

    @abstractmethod
    def rating(self, task: Task) -> Rating:
        """Returns the state of a task's raters before the first event, for a site that asks them item by item."""

    @abstractmethod
    def progress(self, graded: GradedTask) -> GradingProgress:
        """Returns the progress of grading. Raises Rejected if there is no plan."""
