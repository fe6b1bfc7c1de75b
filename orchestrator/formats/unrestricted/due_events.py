"""The due actions of an unrestricted contest: weeks close, defences are published, rulings and stakes settle.

Each `Action` has an id that depends only on the contest, such as `close:2027-W03`. The state decides whether it is due,
and applying its events makes it no longer due. So any number of processes may run actions, twice or late, and no action
takes effect twice. `catch_up` runs all due actions; it has to be called before every command.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from orchestrator.domain.contest_events import FormatEvent
from orchestrator.formats.unrestricted import events
from orchestrator.formats.unrestricted.event_checks import problems, transfers_for, unrecorded_conflicts
from orchestrator.formats.unrestricted.fold import apply
from orchestrator.formats.unrestricted.money import Books, reserved, stake
from orchestrator.formats.unrestricted.prizes import Waiting
from orchestrator.formats.unrestricted.state import (
    DefenceStatus,
    Picture,
    State,
    is_ruled,
)
from orchestrator.formats.unrestricted.week_calendar import (
    TZDATA_VERSION,
    Week,
)

ACTOR = "rules"
"""The actor of events that follow from the rules alone."""


@dataclass(frozen=True, slots=True)
class Action:
    """A due action, and the events that record it."""

    id: str
    events: tuple[FormatEvent, ...]


def catch_up(state: State, now: datetime) -> Iterator[Action]:
    """Yields due actions, to be appended to the ledger in order, and applies each to the state, until none is due."""
    ran = True
    while ran:
        ran = False
        for action in list(due(state, now)):
            if problems(state, action.events[0], now):
                continue  # an action that ran before this one changed the state
            for event in action.events:
                apply(state, event, now)
            ran = True
            yield action


def due(state: State, now: datetime) -> Iterator[Action]:
    """Yields the actions that are due in the current state. After one was applied, call this again.

    A week closes before anything else, because a picture that is received then belongs to the next week.
    """
    for source in (_weeks, _seats, _conflicts, _publications, _appeals, _settlements, _breaks, _stakes, _money):
        for action in source(state, now):
            if not problems(state, action.events[0], now):
                yield action


def next_due(state: State) -> datetime | None:
    """Returns the next instant at which an action becomes due by time alone, None if there is none."""
    instants = [state.week.closes] if state.week else []
    for each in state.unsettled:
        end = state.appeals_end(state.pictures[each])
        if end is not None:
            instants.append(end)
    ends = (state.board_decides_until(state.appeals[each]) for each in state.open_appeals)
    instants += [end for end in ends if end is not None]
    for defence in state.defences.values():
        if defence.staked_at is not None:
            instants += [defence.staked_at + timedelta(days=days) for days in state.rules.prize_days]
    later = [each for each in instants if each > state.at]
    return min(later, default=None)


def _opened(week: Week) -> events.WeekOpened:
    return events.WeekOpened(actor=ACTOR, week=week.id, opens=week.opens, closes=week.closes, tzdata=TZDATA_VERSION)


def _weeks(state: State, now: datetime) -> Iterator[Action]:
    if not state.weeks:
        if first := state.next_week():
            yield Action(f"open:{first.id}", (_opened(first),))
        return
    if state.week is None or now < state.week.closes:
        return
    closed = events.WeekClosed(actor=ACTOR, week=state.week.id, pictures=state.week_pictures)
    following = state.next_week()
    yield Action(f"close:{state.week.id}", (closed, _opened(following)) if following else (closed,))


def _seats(state: State, _: datetime) -> Iterator[Action]:
    """Yields the ends of the seats of people from whom the board's role was taken (U8)."""
    holders = state.board_keys()
    for member, person in sorted(state.board.seated.items()):
        if person not in holders:
            yield Action(f"unseat:{member}", (events.BoardMemberUnseated(actor=ACTOR, member=member),))


def _conflicts(state: State, _: datetime) -> Iterator[Action]:
    for member in sorted(state.board.seated):
        for team in sorted(state.season.teams):
            for source in unrecorded_conflicts(state, member, team):
                event = events.ConflictNoted(actor=ACTOR, member=member, team=team, source=source)
                yield Action(f"conflict:{member}:{source}:{team}", (event,))


def _publications(state: State, _: datetime) -> Iterator[Action]:
    """Yields publications of the defences whose week of testing has closed. U3 allows one more week at the most."""
    for each in state.defences.values():
        if each.status is DefenceStatus.ELIGIBLE and (not each.tested_in or each.tested_in in state.closed_weeks):
            event = events.DefencePublished(actor=ACTOR, defence=each.id, digest=each.digest, source=each.source)
            yield Action(f"publish:{each.id}", (event,))


def _appeals(state: State, now: datetime) -> Iterator[Action]:
    for name in state.open_appeals:
        appeal = state.appeals[name]
        if len(appeal.panel) < state.rules.validity.appeal_raters:
            continue
        found, end = state.panel_ruling(appeal), state.board_decides_until(appeal)
        if is_ruled(found) or (end is not None and now >= end):
            class_name = found.class_name if is_ruled(found) else state.pictures[appeal.picture].class_name
            reason = f"The panel finds: {found.outcome}. {'; '.join(found.reasons)}"[:2000]
            event = events.AppealRuled(actor=ACTOR, appeal=name, class_name=class_name, reason=reason)
            yield Action(f"appeal:{name}", (event,))


def _settlements(state: State, now: datetime) -> Iterator[Action]:
    for name in state.unsettled:
        if _may_settle(state, state.pictures[name], now):
            yield Action(f"settle:{name}", (events.PictureSettled(actor=ACTOR, picture=name),))


def _may_settle(state: State, picture: Picture, now: datetime) -> bool:
    end = state.appeals_end(picture)
    return end is not None and (picture.withheld or now >= end) and not state.has_open_appeal(picture)


def _breaks(state: State, _: datetime) -> Iterator[Action]:
    for defence, picture in state.unrecorded_breaks:
        event = events.DefenceBroken(actor=ACTOR, defence=defence, picture=picture)
        yield Action(f"break:{defence}:{picture}", (event,))


def _stakes(state: State, now: datetime) -> Iterator[Action]:
    for each in state.defences.values():
        end = state.stake_ends(each)
        if each.status is DefenceStatus.STAKED and end is not None and now >= end:
            yield Action(f"expire:{each.id}", (events.DefenceExpired(actor=ACTOR, defence=each.id),))
        if each.status is DefenceStatus.EXPIRED:
            yield Action(f"check:{each.id}", (events.DefenceChecked(actor=ACTOR, defence=each.id),))


def _money(state: State, now: datetime) -> Iterator[Action]:
    if state.books is None or state.rules.prizes is None or state.opened_at is None:
        return
    for cause in _causes(state, state.books, now):
        found = transfers_for(state, cause, now)
        if found and not isinstance(found, Waiting):
            records = [events.TransferRecord.of(each) for each in found]
            yield Action(f"money:{cause}", (events.MoneyMoved(actor=ACTOR, cause=cause, transfers=records),))


def _causes(state: State, books: Books, now: datetime) -> Sequence[str]:
    """Returns the causes that may move money now. It looks at no pictures; `transfers_for` decides for each cause."""
    if state.is_over:
        return ["end"]  # a prize that the board withheld since then
    found = [] if books.transfers else ["accounts"]
    staked = [each for each in state.defences.values() if each.staked_at is not None]
    for each in staked:
        end = state.stake_ends(each)
        waits = any(books.balance(account(each.id)) for account in (reserved, stake))
        if waits and (each.broken_by or (end is not None and now >= end)):
            found.append(f"stake:{each.id}")
    found += [
        f"prize:{days}"
        for days in state.rules.prize_days
        if any(each.staked_at and now >= each.staked_at + timedelta(days=days) for each in staked)
    ]
    if state.weeks and state.week is None and not state.unsettled:
        found.append("end")
    return found
