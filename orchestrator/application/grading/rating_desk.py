"""Serves raters item by item: chooses what each is asked, and appends each answer as an event to the contest's ledger.

`ContestAdmin` reads a whole ledger and updates every board, which takes seconds; a rater answers every few seconds and
waits for the next picture. So the desk stays open, reads only new entries, and updates no board.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from orchestrator.application.contests.administration import Clock
from orchestrator.application.grading import human_grading
from orchestrator.application.grading.graded_pictures import GradedPictures, encode_png
from orchestrator.application.grading.raters import rater_id
from orchestrator.domain import recusal
from orchestrator.domain.contest_events import ContestEvent, FormatEvent, Role
from orchestrator.domain.human_grading import GivenAnswer, ItemForm, OwnAnswers, RatedItem, Rating
from orchestrator.domain.season import Season
from orchestrator.errors import Rejected, UsageError
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.stores.base import format_time


@dataclass(frozen=True, slots=True)
class RaterView:
    """What a rater is shown: the task that is being graded, its forms of items, and the rater's own progress.

    `is_over` says that no more answers are accepted.
    """

    task: str
    forms: Sequence[ItemForm]
    own: OwnAnswers
    is_over: bool


class RatingDesk:
    """Serves the raters of a contest to the threads of one process; other processes may have desks of their own."""

    def __init__(self, folder: ContestFolder, contest: Contest, clock: Clock) -> None:
        """Raises UsageError if nobody grades in this contest, StoreFault if its key is lost."""
        self.contest = contest
        self._folder, self._clock, self._key = folder, clock, folder.key()
        self._lock = threading.Lock()
        self._ratings: dict[str, Rating] = {}
        self._pictures: dict[str, GradedPictures] = {}
        grading, blobs = human_grading.required_grading(contest), folder.blobs()
        for section in contest.file.all_tasks:
            samples = contest.load_samples(section.name)
            self._ratings[section.name] = grading.rating(contest.make_task(samples, section.name))
            self._pictures[section.name] = GradedPictures(blobs, samples.pixels)
        self._season = Season()
        self._ledger = folder.ledger()
        for entry in self._ledger.read():
            self._apply(entry.event, entry.time)

    def view(self, person: str) -> RaterView | None:
        """Returns the rater's view of the first task with an item left, else of the last task; None if of no task."""
        with self._lock:
            self._read_new_entries()
            return self._view(rater_id(self._key, person))

    def _view(self, rater: str) -> RaterView | None:
        found = None
        for task, rating in self._ratings.items():
            own = rating.own_answers(rater)
            if own is not None:
                found = RaterView(task, rating.forms(rater), own, rating.is_over)
                if own.next is not None:
                    break
        return found

    def item(self, person: str, token: str) -> tuple[RatedItem, bool] | None:
        """Returns an item of this rater and whether it is answered; None if the rater has no such item."""
        with self._lock:
            self._read_new_entries()
            return self._item(rater_id(self._key, person), token)

    def _item(self, rater: str, token: str) -> tuple[RatedItem, bool] | None:
        for rating in self._ratings.values():
            if (item := rating.item(rater, token)) is not None:
                return item, rating.is_answered(token)
        return None

    def picture(self, person: str, token: str, number: int) -> bytes | None:
        """Returns the PNG of a picture, numbered from 1, of an item of this rater; None if there is none."""
        rater = rater_id(self._key, person)
        with self._lock:
            self._read_new_entries()
            for task, rating in self._ratings.items():
                if rating.item(rater, token) is not None:
                    shown = rating.pictures(token, partial(self._pictures[task].picture, self._season))
                    return encode_png(shown[number - 1]) if 1 <= number <= len(shown) else None
        return None

    def answer(self, person: str, given: GivenAnswer, *, corrects: bool = False) -> None:
        """Records an answer to the rater's next item or, with `corrects`, replaces the rater's last answer.

        Raises:
            UsageError: the item is not that one, the last answer is too old to be replaced, or the grading is over.
            Rejected: it does not answer the item's questions, or the rater may not grade.
        """
        rater = rater_id(self._key, person)
        with self._lock, self._folder.writing():
            self._read_new_entries()
            self._check_rater(person)
            view, now = self._view(rater), self._clock()
            if view is None or view.is_over:
                raise UsageError("nothing is asked of you now; your earlier answers are kept")
            if corrects:
                _check_correction(view.own, given.token, now)
            elif view.own.next is None or view.own.next.token != given.token:
                raise UsageError("this picture is not the one that you are asked about now; that one is shown here")
            rating = next(each for each in self._ratings.values() if each.item(rater, given.token) is not None)
            event = rating.answer_event(rater, given)
            time = self._ledger.append(event, time=format_time(now))
            self._apply(event, time)

    def close(self) -> None:
        """Closes the ledger."""
        with self._lock:
            self._ledger.close()

    def _check_rater(self, person: str) -> None:
        if person not in self._season.roles[Role.RATER]:
            raise UsageError("you are no longer a rater of this contest; ask the organizers")
        if problems := recusal.rater_problems(self._season, person):
            raise Rejected("rater", problems)

    def _read_new_entries(self) -> None:
        """Applies entries that other processes appended since the last read. Raises StoreFault for a damaged ledger."""
        for entry in self._ledger.read_new():
            self._apply(entry.event, entry.time)

    def _apply(self, event: object, time: str) -> None:
        if isinstance(event, ContestEvent):
            self._season.apply(event, time)
        if isinstance(event, FormatEvent):
            for rating in self._ratings.values():
                rating.apply(event, datetime.fromisoformat(time))


def _check_correction(own: OwnAnswers, token: str, now: datetime) -> None:
    if own.last is None or own.last.token != token:
        raise UsageError("only your last answer can be changed; go on with the picture that is shown here")
    if not own.may_correct(now):
        raise UsageError("an answer can be changed within 60 seconds; go on with the picture that is shown here")
