"""Chooses the picture of an unrestricted contest that a rater is asked about, and records the answers (U6, U8)."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import sha256

from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.application.grading.raters import rater_id
from orchestrator.domain import recusal
from orchestrator.domain.contest_events import Role
from orchestrator.domain.name_matching import person_key
from orchestrator.domain.samples import Pixels
from orchestrator.errors import Problem, Rejected
from orchestrator.formats.unrestricted import events
from orchestrator.formats.unrestricted.bounding_boxes import PictureSize
from orchestrator.formats.unrestricted.questionnaire import Answers
from orchestrator.formats.unrestricted.rater_tests import KnownPicture, RaterRecord, is_right, next_test
from orchestrator.formats.unrestricted.rating_form import RatingForm
from orchestrator.formats.unrestricted.state import PictureStatus, State
from orchestrator.formats.unrestricted.validity import Outcome
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.stores.base import array_digest


@dataclass(frozen=True, slots=True)
class AskedItem:
    """A picture that raters are asked about.

    `appeal` is the appeal whose panel is asked, "" for a new picture; `missing` is the number of raters still wanted.
    `test` is the picture if its class is known (U6), about which any number of raters may answer; `practice` says
    whether the rater is told afterwards whether the answer was right.
    """

    picture: str
    appeal: str
    missing: int
    test: KnownPicture | None = None
    practice: bool = False


_EVERYBODY = 10_000
"""The number of raters who may be asked about a known picture at a time."""


@lru_cache(maxsize=1)
def known_pictures(contest: Contest) -> Mapping[KnownPicture, Pixels]:
    """Returns the pictures that test raters, with their pixels u8 [c, h, w]: the task's public pictures, if any.

    They are read once for each contest file. Raises Rejected if they cannot be read, or have another shape than the
    task's pictures.
    """
    samples = contest.load_public_samples(contest.only_task)
    if samples is None:
        return {}
    size = PictureSize(*samples.shape[1:])
    return {
        KnownPicture(array_digest(pixels), size, samples.classes[label]): pixels
        for pixels, label in zip(samples.pixels, samples.labels, strict=True)
    }


def asked_items(contest: UnrestrictedContest, person: str, known: Collection[KnownPicture]) -> tuple[AskedItem, ...]:
    """Returns the items that a rater may be asked about now, the most urgent first, or only a test of the rater.

    A hidden test comes only while other items wait, among which it can hide.
    """
    key = contest.folder.key()
    rater = rater_id(key, person)

    def found(state: State) -> tuple[AskedItem, ...]:
        record = state.raters.get(rater, RaterRecord())
        items = tuple(open_items(state, rater))
        answered = record.rated + record.practised + record.hidden
        draw = int.from_bytes(sha256(key.sign(f"sparring hidden item\n{rater}\n{answered}".encode())).digest())
        test = next_test(state.rules.raters, record, known, draw)
        if test is None or not (items or test[1]):
            return items
        return (AskedItem(test[0].pixels, "", _EVERYBODY, *test),)

    return contest.read(found)


def rater_of(contest: UnrestrictedContest, person: str) -> str:
    """Returns a person's rater id, which is published and does not reveal who they are."""
    return rater_id(contest.folder.key(), person)


def rater_problems(state: State, person: str) -> list[Problem]:
    """Returns why a person cannot be a rater, such as a team of theirs, whose pictures they know; [] if they can."""
    key = person_key(person)
    found = recusal.rater_problems(state.season, person)
    if not found and any(key in people for people in state.people.values()):
        found = [Problem("rater", "was in a team when it submitted something", "let somebody else rate")]
    if person not in state.season.roles[Role.RATER]:
        found.append(Problem("rater", "does not have the role of a rater", "ask the organizers"))
    return found


def is_removed(state: State, rater: str) -> bool:
    """Returns whether a rater was removed for too many wrong answers about hidden items (U6)."""
    return rater in state.raters and state.raters[rater].is_removed


def open_items(state: State, rater: str) -> Iterator[AskedItem]:
    """Yields the items that a rater may be asked about: first panels of appeals, then pictures, in ledger order."""
    if is_removed(state, rater):
        return
    for name in state.open_appeals:
        appeal = state.appeals[name]
        missing = state.rules.validity.appeal_raters - len(appeal.panel)
        picture = state.pictures[appeal.picture]
        known = {each.rater for each in (*picture.ratings, *appeal.panel)}
        if appeal.has_panel and missing > 0 and rater not in known and not appeal.is_reported:
            yield AskedItem(picture.id, name, missing)
    for name in state.unsettled:
        picture = state.pictures[name]
        if picture.status is not PictureStatus.RATING or any(each.rater == rater for each in picture.ratings):
            continue
        ruling = picture.ruling
        if ruling is not None and ruling.outcome is not Outcome.MORE_RATERS:
            continue
        yield AskedItem(name, "", ruling.more_raters if ruling else state.rules.validity.raters_per_picture)


def form_of(state: State, item: AskedItem) -> RatingForm:
    """Returns the form of the questions about an item's picture."""
    return RatingForm(state.questionnaire, item.test.size if item.test else state.pictures[item.picture].size)


def answer_test(
    contest: UnrestrictedContest,
    person: str,
    test: KnownPicture,
    answers: Answers | None,
    now: datetime,
    *,
    practice: bool,
) -> bool:
    """Records a rater's answers about a known picture, None for a report, and returns whether they are right.

    Raises Rejected if this rater is not asked about it.
    """
    if problems := contest.read(lambda state: rater_problems(state, person)):
        raise Rejected("rater", problems)
    rater = rater_of(contest, person)
    event = events.RaterTested(
        actor=rater,
        rater=rater,
        pixels=test.pixels,
        height=test.size.height,
        width=test.size.width,
        shows=test.shows,
        answers=answers,
        practice=practice,
    )
    contest.propose(event, now)
    return is_right(answers, test.shows)


def rate(
    contest: UnrestrictedContest, person: str, item: AskedItem, answers: Answers | None, now: datetime
) -> PictureStatus:
    """Records a rater's answers about a picture, None for a report, and returns the picture's status afterwards.

    Raises:
        Rejected: raters are no longer asked about this picture, or this rater is not.
    """
    if problems := contest.read(lambda state: rater_problems(state, person)):
        raise Rejected("rater", problems)
    rater = rater_of(contest, person)
    event = events.PictureRated(actor=rater, picture=item.picture, rater=rater, answers=answers, appeal=item.appeal)
    contest.propose(event, now)
    return contest.read(lambda state: state.pictures[item.picture].status)
