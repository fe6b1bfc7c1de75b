"""The commands of people in an unrestricted contest: each returns the events to append, or why it is refused.

A command reads no clock and no ledger. The caller first runs what is due (`due_events.catch_up`), passes the state, the
time and the person who acts, and appends the events that the command returns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from orchestrator.domain.contest_events import FormatEvent
from orchestrator.errors import Problem
from orchestrator.formats.unrestricted import events
from orchestrator.formats.unrestricted.event_checks import (
    board_stake,
    problems,
    stake_question,
    team_stake,
    vote_on,
)
from orchestrator.formats.unrestricted.money import Transfer
from orchestrator.formats.unrestricted.recusal import ConflictSource, months_later
from orchestrator.formats.unrestricted.state import State
from orchestrator.formats.unrestricted.week_calendar import local_day


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a command is refused: every reason, with its remedy where there is one."""

    problems: tuple[Problem, ...]


Result = tuple[FormatEvent, ...] | Refusal
"""The events to append; none if it was done before, so that nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A picture that was received completely and decoded.

    `digest` is the digest of the file, `pixels` that of the decoded picture; `height` and `width` are in pixels.
    """

    picture: str
    team: str
    digest: str
    pixels: str
    height: int
    width: int


def propose(state: State, now: datetime, event: FormatEvent) -> Result:
    """Returns an event that somebody proposes, if it is allowed now: a rating, a vote, an appeal, answers."""
    found = problems(state, event, now)
    return Refusal(tuple(found)) if found else (event,)


def receive_picture(state: State, now: datetime, actor: str, upload: Upload) -> Result:
    """Receives a picture (U4). A file that the team submitted before changes nothing and counts for no limit."""
    if (upload.team, upload.digest) in state.receipts:
        return ()
    event = events.PictureReceived(
        actor=actor,
        picture=upload.picture,
        team=upload.team,
        digest=upload.digest,
        pixels=upload.pixels,
        height=upload.height,
        width=upload.width,
        day=local_day(now, state.zone),
    )
    return propose(state, now, event)


def decide_readability(state: State, now: datetime, actor: str, defence: str, *, readable: bool, reason: str) -> Result:
    """Records the board's decision about a defence's code, by the votes on `readable:DEFENCE` (U2)."""
    if (vote := _vote(state, f"readable:{defence}", now)) is None:
        return _unknown("defence", defence)
    event = events.ReadabilityDecided(actor=actor, defence=defence, readable=readable, vote=vote, reason=reason)
    return propose(state, now, event)


def admit_attacker(state: State, now: datetime, actor: str, team: str, preprint: str = "") -> Result:
    """Lets a team submit pictures, by its preprint's address or by the votes on `admit:TEAM` (U4)."""
    vote = None
    if not preprint and (vote := _vote(state, f"admit:{team}", now)) is None:
        return _unknown("team", team)
    return propose(state, now, events.AttackerAdmitted(actor=actor, team=team, preprint=preprint, vote=vote))


def stake_by_board(state: State, now: datetime, actor: str, batch: str, criteria: Mapping[str, str]) -> Result:
    """Stakes defences as a batch, each with its reason, by the votes on `stake:ONE+OTHER` (U9)."""
    if (vote := _vote(state, stake_question(criteria), now)) is None:
        return _unknown("defences", ", ".join(criteria))
    if isinstance(found := board_stake(state, criteria), Problem):
        return Refusal((found,))
    event = events.DefencesStaked(
        actor=actor, batch=batch, criteria=dict(criteria), vote=vote, transfers=_records(found)
    )
    return propose(state, now, event)


def record_stake_payment(state: State, now: datetime, actor: str, defence: str, reference: str) -> Result:
    """Records that a team's payment for the stake on its defence arrived (U9)."""
    if isinstance(found := team_stake(state, defence), Problem):
        return Refusal((found,))
    event = events.StakePaid(actor=actor, defence=defence, reference=reference, transfers=_records(found))
    return propose(state, now, event)


def rule_on_appeal(state: State, now: datetime, actor: str, appeal: str, class_name: str | None, reason: str) -> Result:
    """Records the board's decision on an appeal, by votes on `appeal:APPEAL:CLASS` or `appeal:APPEAL:invalid` (U8)."""
    if (vote := _vote(state, f"appeal:{appeal}:{class_name or events.INVALID}", now)) is None:
        return _unknown("appeal", appeal)
    event = events.AppealRuled(actor=actor, appeal=appeal, class_name=class_name, vote=vote, reason=reason)
    return propose(state, now, event)


def overrule(state: State, now: datetime, actor: str, picture: str, class_name: str | None, reason: str) -> Result:
    """Changes a ruling by the board's votes on `overrule:PICTURE:CLASS` or `overrule:PICTURE:invalid` (U8)."""
    if (vote := _vote(state, f"overrule:{picture}:{class_name or events.INVALID}", now)) is None:
        return _unknown("picture", picture)
    event = events.PictureOverruled(actor=actor, picture=picture, class_name=class_name, vote=vote, reason=reason)
    return propose(state, now, event)


def decide_report(state: State, now: datetime, actor: str, picture: str, *, withhold: bool, reason: str) -> Result:
    """Records the board's decision on a reported picture, by the votes on `report:PICTURE:withhold` or `...:show`."""
    if (vote := _vote(state, f"report:{picture}:{'withhold' if withhold else 'show'}", now)) is None:
        return _unknown("picture", picture)
    event = events.ReportDecided(actor=actor, picture=picture, withhold=withhold, vote=vote, reason=reason)
    return propose(state, now, event)


def withhold_prize(state: State, now: datetime, actor: str, award: str, reason: str) -> Result:
    """Withholds an award by the board's votes on `withhold:AWARD` (U8)."""
    if (vote := _vote(state, f"withhold:{award}", now)) is None:
        return _unknown("award", award)
    return propose(state, now, events.PrizeWithheld(actor=actor, award=award, vote=vote, reason=reason))


def record_conflict(state: State, now: datetime, actor: str, member: str, team: str, source: ConflictSource) -> Result:
    """Records a conflict that a member or a team declares; a conflict of co-authors ends after 48 months (U8)."""
    until = months_later(now.date()) if source is ConflictSource.CO_AUTHOR else None
    event = events.ConflictNoted(actor=actor, member=member, team=team, source=source, until=until)
    return propose(state, now, event)


def _vote(state: State, question: str, now: datetime) -> events.Vote | None:
    """Returns the votes on a question, None if there is no such case."""
    try:
        return vote_on(state, question, now)
    except KeyError:
        return None


def _unknown(what: str, name: str) -> Refusal:
    return Refusal((Problem(what, f"there is no {name!r} on which the board could vote", "check the id"),))


def _records(transfers: tuple[Transfer, ...]) -> list[events.TransferRecord]:
    return [events.TransferRecord.of(each) for each in transfers]
