"""Which picture of an unrestricted contest a rater is asked about, and what they answer (U6, U8)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.application.grading.raters import rater_id
from orchestrator.domain import recusal
from orchestrator.domain.contest_events import Role
from orchestrator.domain.name_matching import person_key
from orchestrator.errors import Problem, Rejected
from orchestrator.formats.unrestricted import events
from orchestrator.formats.unrestricted.questionnaire import Answers
from orchestrator.formats.unrestricted.rating_form import RatingForm
from orchestrator.formats.unrestricted.state import PictureStatus, State
from orchestrator.formats.unrestricted.validity import Outcome


@dataclass(frozen=True, slots=True)
class AskedItem:
    """A picture that raters are asked about, "" or the appeal whose panel is asked, and how many raters are missing."""

    picture: str
    appeal: str
    missing: int


def rater_name(contest: UnrestrictedContest, person: str) -> str:
    """Returns what somebody is called as a rater: it is published, and says nothing of who they are."""
    return rater_id(contest.folder.key(), person)


def rater_problems(state: State, person: str) -> list[Problem]:
    """Returns why somebody cannot be a rater, nothing if they can: who is or was in a team knows its pictures."""
    key = person_key(person)
    found = recusal.rater_problems(state.season, person)
    if not found and any(key in people for people in state.people.values()):
        found = [Problem("rater", "was in a team when it handed something in", "let somebody else rate")]
    if person not in state.season.roles[Role.RATER]:
        found.append(Problem("rater", "has not the role of a rater", "ask the organizers"))
    return found


def open_items(state: State, rater: str) -> Iterator[AskedItem]:
    """Yields the pictures that a rater may be asked about, panels of appeals first, each in the ledger's order."""
    for name in state.open_appeals:
        appeal = state.appeals[name]
        missing = state.rules.validity.appeal_raters - len(appeal.panel)
        picture = state.pictures[appeal.picture]
        known = {each.rater for each in (*picture.ratings, *appeal.panel)}
        if appeal.has_panel and missing > 0 and rater not in known:
            yield AskedItem(picture.id, name, missing)
    for name in state.unsettled:
        picture = state.pictures[name]
        if picture.status is not PictureStatus.RATING or any(each.rater == rater for each in picture.ratings):
            continue
        ruling = picture.ruling
        if ruling is not None and ruling.outcome is not Outcome.MORE_RATERS:
            continue
        yield AskedItem(name, "", ruling.more_raters if ruling else state.rules.validity.raters_per_picture)


def form_of(state: State, picture: str) -> RatingForm:
    """Returns what is asked about a picture."""
    return RatingForm(state.questionnaire, state.pictures[picture].size)


def rate(
    contest: UnrestrictedContest, person: str, item: AskedItem, answers: Answers | None, now: datetime
) -> PictureStatus:
    """Notes what a rater answers about a picture, None for a report, and returns how far the picture is then.

    Raises:
        Rejected: nobody is asked about it any more, or not this rater.
    """
    if problems := contest.read(lambda state: rater_problems(state, person)):
        raise Rejected("rater", problems)
    rater = rater_name(contest, person)
    event = events.PictureRated(actor=rater, picture=item.picture, rater=rater, answers=answers, appeal=item.appeal)
    contest.propose(event, now)
    return contest.read(lambda state: state.pictures[item.picture].status)
