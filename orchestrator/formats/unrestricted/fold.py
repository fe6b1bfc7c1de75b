"""Applies the events of a ledger, in order, to the state of an unrestricted contest.

`apply` refuses an event that is not allowed (`event_checks`) and then leaves the state unchanged. So every prefix of a
ledger that folds gives a valid state, and a forged ledger does not fold.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import ContestEvent, FormatEvent
from orchestrator.domain.name_matching import person_key
from orchestrator.errors import Problem, Rejected
from orchestrator.formats.unrestricted import events
from orchestrator.formats.unrestricted.bounding_boxes import PictureSize
from orchestrator.formats.unrestricted.event_checks import case_of, ineligible_because, problems, question_of
from orchestrator.formats.unrestricted.money import Transfer
from orchestrator.formats.unrestricted.prizes import pay, withhold
from orchestrator.formats.unrestricted.rater_tests import RaterRecord, is_right
from orchestrator.formats.unrestricted.recusal import Conflict, waivers_left
from orchestrator.formats.unrestricted.rules import UnrestrictedRules
from orchestrator.formats.unrestricted.state import (
    Appeal,
    Decision,
    Defence,
    DefenceStatus,
    Picture,
    PictureStatus,
    State,
    is_defence,
    is_ruled,
)
from orchestrator.formats.unrestricted.validity import Rating
from orchestrator.formats.unrestricted.week_calendar import Week

STILL_HOLDING = frozenset(
    {
        DefenceStatus.ELIGIBLE,
        DefenceStatus.PUBLISHED,
        DefenceStatus.STAKED,
        DefenceStatus.EXPIRED,
        DefenceStatus.CHECKED,
    }
)


def fold(
    rules: UnrestrictedRules, entries: Iterable[tuple[ContestEvent, datetime]], *, redacted: bool = False
) -> State:
    """Returns the state after these events, each with its time.

    A `redacted` ledger has neither the people of teams nor the holders of roles. Of it, everything is checked that does
    not depend on these people.

    Raises:
        Rejected: an event is not allowed where it is in the ledger.
    """
    state = State(rules, redacted=redacted)
    for event, at in entries:
        apply(state, event, at)
    return state


def apply(state: State, event: ContestEvent, at: datetime) -> None:
    """Applies one event with its time, which is aware, to the state. Also takes events that do not concern this format.

    Raises:
        Rejected: the event is not allowed now; the state is unchanged.
    """
    own = isinstance(event, FormatEvent) and event.kind.startswith("unrestricted.")
    if own and (found := problems(state, event, at)):
        raise Rejected(f"event {state.position + 1}", found)
    if at < state.at:
        raise Rejected(f"event {state.position + 1}", [Problem("time", "the ledger is later already")])
    state.at = at
    state.position += 1
    if own:
        _LEARN[type(event)](state, event, at)
        if getattr(event, "vote", None) is not None:
            state.decided.add(case_of(question_of(event)))
        return
    state.season.apply(event, at.isoformat())
    match event:
        case contest_events.ContestOpened():
            state.opened_at = at
        case contest_events.TeamAdded():
            _learn_people(state, event.team)
        case contest_events.SubmissionReceived() if is_defence(event.side):
            _bind_people(state, event.team)
            entry = state.season.entries[event.id]
            state.defences[event.id] = Defence(event.id, event.team, state.position, entry.digest, entry.source)
        case contest_events.SubmissionCorrected() if event.id in state.defences:
            defence = state.defences[event.id]
            if defence.status in (DefenceStatus.RECEIVED, DefenceStatus.READABLE):
                defence.source = state.season.entries[event.id].source


def _learn_people(state: State, team: str) -> None:
    """Sets a team's people: those who are in it now, and those who are bound to it."""
    current = {person.identity_key for person in state.season.teams[team]}
    state.people[team] = current | state.bound.get(team, set())


def _bind_people(state: State, team: str) -> None:
    """Binds a team's current people to it, because it submits something (U12)."""
    state.bound.setdefault(team, set()).update(state.people.setdefault(team, set()))


# Weeks


def _week_opened(state: State, event: events.WeekOpened, _: datetime) -> None:
    state.weeks[event.week] = Week(event.week, event.opens, event.closes)
    state.tzdata = event.tzdata
    state.week_pictures = []


def _week_closed(state: State, event: events.WeekClosed, _: datetime) -> None:
    state.closed_weeks[event.week] = state.week_pictures
    for picture in state.week_pictures:
        state.pictures[picture].status = PictureStatus.RATING
        state.unsettled[picture] = None
    for defence in state.defences.values() if state.week_pictures else ():
        if _is_eligible(defence):
            state.to_ask.setdefault(event.week, set()).add(defence.id)
    state.week_pictures = []
    for record in state.raters.values():
        record.published = (record.hidden, record.hidden_right)


# Defences


def _readability_decided(state: State, event: events.ReadabilityDecided, _: datetime) -> None:
    defence = state.defences[event.defence]
    defence.status = DefenceStatus.READABLE if event.readable else DefenceStatus.REFUSED
    defence.tested_on = tuple(state.valid)
    defence.why = "" if event.readable else f"not readable: {event.reason}"


def _defence_tested(state: State, event: events.DefenceTested, at: datetime) -> None:
    defence = state.defences[event.defence]
    defence.why = ineligible_because(state, event)
    defence.status = DefenceStatus.REFUSED if defence.why else DefenceStatus.ELIGIBLE
    defence.tested_at, defence.tested_in = at, state.week.id if state.week else ""
    shown = {each: state.pictures[each].class_name for each in defence.tested_on}
    defence.tested_as = {picture: name for picture, name in shown.items() if name is not None}
    for picture in () if defence.why else state.awaited_answers(defence):
        state.to_ask.setdefault(state.pictures[picture].week, set()).add(defence.id)


def _is_eligible(defence: Defence) -> bool:
    """Returns whether a defence was found eligible (U2), whatever its stage is now."""
    return defence.tested_at is not None and defence.status is not DefenceStatus.REFUSED


def _defence_published(state: State, event: events.DefencePublished, at: datetime) -> None:
    state.defences[event.defence].status = DefenceStatus.PUBLISHED
    state.defences[event.defence].published_at = at


def _defences_staked(state: State, event: events.DefencesStaked, at: datetime) -> None:
    for name in event.criteria:
        _stake(state.defences[name], event.batch, at)
    _post(state, (each.transfer() for each in event.transfers))


def _stake_paid(state: State, event: events.StakePaid, at: datetime) -> None:
    _stake(state.defences[event.defence], f"team:{event.defence}", at)
    _post(state, (each.transfer() for each in event.transfers))


def _stake(defence: Defence, batch: str, at: datetime) -> None:
    defence.status, defence.batch, defence.staked_at = DefenceStatus.STAKED, batch, at


def _answers_recorded(state: State, event: events.AnswersRecorded, _: datetime) -> None:
    defence = state.defences[event.defence]
    defence.answers.update(event.answers)
    defence.faults.update(event.faults)
    defence.other_seeds.update(event.other_seeds)
    _await_breaks(state, defence, event.answers)
    waiting = state.to_ask.get(event.week, set())
    if not any(state.awaits_answer(defence, state.pictures[each]) for each in state.closed_weeks[event.week]):
        waiting.discard(defence.id)
        if not waiting:
            state.to_ask.pop(event.week, None)


def _await_breaks(state: State, defence: Defence, pictures: Iterable[str]) -> None:
    """Adds to `unrecorded_breaks` the breaks of a defence by those of these pictures that are settled (U7)."""
    for name in pictures:
        picture = state.pictures[name]
        if picture.settled and name not in defence.broken_by and state.breaks(defence, picture):
            state.unrecorded_breaks[defence.id, name] = None


def _defence_broken(state: State, event: events.DefenceBroken, at: datetime) -> None:
    defence, picture = state.defences[event.defence], state.pictures[event.picture]
    defence.broken_by.append(picture.id)
    defence.broken_at = defence.broken_at or at
    del state.unrecorded_breaks[defence.id, picture.id]
    end = state.stake_ends(defence)
    if defence.status in STILL_HOLDING and (end is None or picture.received < end):
        defence.status = DefenceStatus.BROKEN


def _defence_expired(state: State, event: events.DefenceExpired, _: datetime) -> None:
    state.defences[event.defence].status = DefenceStatus.EXPIRED


def _rejection_confirmed(state: State, event: events.RejectionConfirmed, _: datetime) -> None:
    state.defences[event.defence].confirmed[event.picture] = event.member


def _defence_checked(state: State, event: events.DefenceChecked, _: datetime) -> None:
    state.defences[event.defence].status = DefenceStatus.CHECKED


# Pictures


def _attacker_admitted(state: State, event: events.AttackerAdmitted, _: datetime) -> None:
    state.admitted[event.team] = event.preprint


def _picture_received(state: State, event: events.PictureReceived, at: datetime) -> None:
    week = state.week
    if week is None:
        raise ValueError("no week is open")
    size = PictureSize(event.height, event.width)
    state.pictures[event.picture] = Picture(event.picture, event.team, state.position, at, week.id, size, event.pixels)
    state.week_pictures.append(event.picture)
    state.receipts[event.team, event.digest] = event.picture
    state.uploads[event.team, event.day] = state.uploads.get((event.team, event.day), 0) + 1
    _bind_people(state, event.team)


def _picture_rated(state: State, event: events.PictureRated, at: datetime) -> None:
    picture, rating = state.pictures[event.picture], Rating(event.rater, event.answers)
    state.raters.setdefault(event.rater, RaterRecord()).rated += 1
    if event.appeal:
        appeal = state.appeals[event.appeal]
        appeal.panel.append(rating)
        appeal.rated_at = at
        return
    picture.ratings.append(rating)
    _rule(state, picture, at)


def _rater_tested(state: State, event: events.RaterTested, _: datetime) -> None:
    record, right = state.raters.setdefault(event.rater, RaterRecord()), is_right(event.answers, event.shows)
    record.add_answer(state.rules.raters, event.pixels, right=right, practice=event.practice)


def _rule(state: State, picture: Picture, at: datetime) -> None:
    """Rules on a picture by its ratings so far (U6)."""
    picture.ruling = state.judge(picture).rule_on_picture(picture.counting)
    if is_ruled(picture.ruling):
        _decide(state, picture, picture.ruling.class_name, at)


def _decide(state: State, picture: Picture, class_name: str | None, at: datetime) -> None:
    """Sets the ruling on a picture: valid with the class that it shows, or invalid. Teams may appeal from `at` on."""
    picture.class_name, picture.ruled_at = class_name, at
    picture.status = PictureStatus.INVALID if class_name is None else PictureStatus.VALID
    if class_name is None:
        state.valid.pop(picture.id, None)
    else:
        state.valid[picture.id] = None
        for defence in state.defences.values():
            if _is_eligible(defence) and state.awaits_answer(defence, picture):
                state.to_ask.setdefault(picture.week, set()).add(defence.id)


def _report_decided(state: State, event: events.ReportDecided, at: datetime) -> None:
    picture = state.pictures[event.picture]
    outcome = "withheld" if event.withhold else "report dismissed"
    picture.decisions.append(Decision(at, "board", outcome, event.reason))
    if event.withhold:
        picture.withheld = True
        _decide(state, picture, None, at)
        return
    picture.dismissed |= {rating.rater for rating in picture.ratings if rating.answers is None}
    _rule(state, picture, at)


def _picture_overruled(state: State, event: events.PictureOverruled, at: datetime) -> None:
    picture = state.pictures[event.picture]
    picture.decisions.append(Decision(at, "board", _outcome(event.class_name), event.reason))
    _decide(state, picture, event.class_name, at)
    picture.appeals, picture.settled = [], False
    state.unsettled[picture.id] = None
    state.rejected.pop(picture.id, None)


def _picture_settled(state: State, event: events.PictureSettled, _: datetime) -> None:
    picture = state.pictures[event.picture]
    picture.settled = True
    del state.unsettled[picture.id]
    if picture.is_rejected:
        state.rejected[picture.id] = None
    for defence in state.defences.values():
        _await_breaks(state, defence, [event.picture])


def _outcome(class_name: str | None) -> str:
    return "invalid" if class_name is None else f"valid: {class_name}"


# Appeals


def _picture_appealed(state: State, event: events.PictureAppealed, _: datetime) -> None:
    state.appeals[event.appeal] = Appeal(event.appeal, event.picture, event.team, event.text)
    state.open_appeals[event.appeal] = None
    state.pictures[event.picture].appeals.append(event.appeal)


def _panel_called(state: State, event: events.PanelCalled, _: datetime) -> None:
    state.appeals[event.appeal].has_panel = True


def _appeal_ruled(state: State, event: events.AppealRuled, at: datetime) -> None:
    appeal = state.appeals[event.appeal]
    picture = state.pictures[appeal.picture]
    del state.open_appeals[appeal.id]
    by = "panel" if event.vote is None else "board"
    appeal.decision = Decision(at, by, _outcome(event.class_name), event.reason)
    picture.decisions.append(appeal.decision)
    ruled_at = picture.ruled_at or at
    _decide(state, picture, event.class_name, ruled_at)


# The board


def _board_member_seated(state: State, event: events.BoardMemberSeated, _: datetime) -> None:
    state.board.seat(event.member, person_key(event.person) if event.person else "", event.case)


def _board_member_unseated(state: State, event: events.BoardMemberUnseated, _: datetime) -> None:
    state.board.unseat(event.member)


def _conflict_noted(state: State, event: events.ConflictNoted, _: datetime) -> None:
    found = state.board.conflicts.setdefault((event.member, event.team), [])
    found.append(Conflict(event.source, event.until))


def _conflict_waived(state: State, event: events.ConflictWaived, _: datetime) -> None:
    for conflict in waivers_left(state.board.conflicts, event.member, event.team):
        conflict.waived_by.add(event.by)


def _vote_cast(state: State, event: events.VoteCast, _: datetime) -> None:
    state.board.votes.setdefault(event.question, {})[event.member] = event.in_favour
    if picture := state.picture_of(event.question):
        picture.members.add(event.member)


# Money


def _money_moved(state: State, event: events.MoneyMoved, _: datetime) -> None:
    _post(state, (each.transfer() for each in event.transfers))
    state.is_over = state.is_over or event.cause == "end"


def _prize_paid(state: State, event: events.PrizePaid, _: datetime) -> None:
    if state.books is not None:
        _post(state, pay(state.books, event.award, event.reference))
        _note_prize(state, event.award, DefenceStatus.PAID)


def _prize_withheld(state: State, event: events.PrizeWithheld, _: datetime) -> None:
    if state.books is not None:
        _post(state, withhold(state.books, event.award, event.reason))
        _note_prize(state, event.award, DefenceStatus.WITHHELD)


def _note_prize(state: State, award: str, status: DefenceStatus) -> None:
    """Sets a defence's status if `award` is its prize; an award for fewer days is an advance and changes nothing."""
    transfer = state.books.transfers[award] if state.books else None
    if transfer is not None and transfer.days == state.rules.days_unbroken:
        state.defences[transfer.defence].status = status


def _post(state: State, transfers: Iterable[Transfer] | Problem) -> None:
    """Posts transfers, which `event_checks` has checked before. Raises Rejected if they cannot be posted."""
    if state.books is None:
        return
    found = transfers if isinstance(transfers, Problem) else state.books.post_all(transfers)
    if isinstance(found, Problem):
        raise Rejected(f"event {state.position}", [found])
    state.books = found


_LEARN: dict[type, Callable[[State, Any, datetime], None]] = {
    events.WeekOpened: _week_opened,
    events.WeekClosed: _week_closed,
    events.ReadabilityDecided: _readability_decided,
    events.DefenceTested: _defence_tested,
    events.DefencePublished: _defence_published,
    events.DefencesStaked: _defences_staked,
    events.StakePaid: _stake_paid,
    events.AnswersRecorded: _answers_recorded,
    events.DefenceBroken: _defence_broken,
    events.DefenceExpired: _defence_expired,
    events.RejectionConfirmed: _rejection_confirmed,
    events.DefenceChecked: _defence_checked,
    events.AttackerAdmitted: _attacker_admitted,
    events.PictureReceived: _picture_received,
    events.PictureRated: _picture_rated,
    events.RaterTested: _rater_tested,
    events.ReportDecided: _report_decided,
    events.PictureOverruled: _picture_overruled,
    events.PictureSettled: _picture_settled,
    events.PictureAppealed: _picture_appealed,
    events.PanelCalled: _panel_called,
    events.AppealRuled: _appeal_ruled,
    events.BoardMemberSeated: _board_member_seated,
    events.BoardMemberUnseated: _board_member_unseated,
    events.ConflictNoted: _conflict_noted,
    events.ConflictWaived: _conflict_waived,
    events.VoteCast: _vote_cast,
    events.MoneyMoved: _money_moved,
    events.PrizePaid: _prize_paid,
    events.PrizeWithheld: _prize_withheld,
}
