"""Conflicts of members of an unrestricted contest's review board (U8): declared, computed, and waived ones."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial

from orchestrator.application.contests.administration import validated
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.domain.name_matching import person_key
from orchestrator.errors import Rejected, UsageError
from orchestrator.formats.unrestricted import commands, events
from orchestrator.formats.unrestricted.recusal import ConflictSource, same_organization, waivers_left
from orchestrator.formats.unrestricted.state import State
from orchestrator.formats.unrestricted.visibility import is_recused

DECLARED = (ConflictSource.DECLARED, ConflictSource.CO_AUTHOR, ConflictSource.ADVISOR)
"""The sources of a conflict that people declare."""


@dataclass(frozen=True, slots=True)
class MemberConflict:
    """A conflict of a member of the board with a team."""

    member: str
    team: str
    source: ConflictSource


def declare_own(contest: UnrestrictedContest, conflict: MemberConflict, at: datetime) -> None:
    """Records a conflict that a member of the board declares: the member then sees no case of this team.

    Raises:
        UsageError: the board has no such member, or conflicts of this source are computed and not declared.
        Rejected: the contest's rules are against it.
    """
    if not contest.read(lambda state: conflict.member in state.board.seated):
        raise UsageError("there is no such member of the board; organizers seat members")
    _record_declared(contest, conflict.member, conflict, at)


def declare_for_team(contest: UnrestrictedContest, person: str, conflict: MemberConflict, at: datetime) -> None:
    """Records a conflict that a person of a team declares: the member then sees no case of this team.

    A team declares none with members who are seated for a single case. Such a member is seated because too few others
    may decide the case, so a team that could object to each one would never get a decision against it.

    Raises:
        UsageError: the board has no such member, or conflicts of this source are computed and not declared.
        Rejected: the contest's rules are against it.
    """
    if not contest.read(lambda state: conflict.member in state.board.members):
        raise UsageError(
            "there is no such member of the whole board; tell the organizers if they seated somebody with a conflict "
            "for a single case"
        )
    _record_declared(contest, person, conflict, at)


def _record_declared(contest: UnrestrictedContest, actor: str, conflict: MemberConflict, at: datetime) -> None:
    if conflict.source not in DECLARED:
        raise UsageError(f"people declare {', '.join(DECLARED)}; other conflicts are computed")
    command = partial(
        commands.record_conflict, actor=actor, member=conflict.member, team=conflict.team, source=conflict.source
    )
    contest.act(command, at)


def record_organization_conflicts(
    contest: UnrestrictedContest, addresses: Mapping[str, str], actor: str, at: Callable[[], datetime]
) -> None:
    """Records the conflicts of members whose e-mail address has the organization of one in a team, once each (U8).

    `addresses` maps people's ids in the ledger to their e-mail addresses, since such ids do not tell an organization.

    Raises StoreFault or Busy; the next call records what is left.
    """
    known = {person_key(person): person_key(address) for person, address in addresses.items()}
    for member, team in contest.read(lambda state: _common_organizations(state, known)):
        source = ConflictSource.ORGANIZATION
        with suppress(Rejected):  # another process recorded it meanwhile
            contest.act(partial(commands.record_conflict, actor=actor, member=member, team=team, source=source), at())


def _common_organizations(state: State, known: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns pairs of a member and a team with a common organization that the ledger does not record yet."""

    def has_conflict(member: str, team: str) -> bool:
        own = state.board.names[member]
        recorded = state.board.conflicts.get((member, team), ())
        others = (known.get(each, each) for each in state.people[team] if each != own)
        return all(each.source is not ConflictSource.ORGANIZATION for each in recorded) and any(
            same_organization(known.get(own, own), each) for each in others
        )

    return [(member, team) for member in state.board.seated for team in state.people if has_conflict(member, team)]


def waive(contest: UnrestrictedContest, by: str, member: str, team: str, reason: str, at: datetime) -> None:
    """Records that the member `by` waives a computed conflict of `member`; it takes two waivers to end the conflict.

    Raises:
        UsageError: a text is missing or too long.
        Rejected: it is `by`'s own conflict, or none that may be waived, or `by` has a conflict with the team as well.
    """
    event = validated(events.ConflictWaived, actor=by, by=by, member=member, team=team, reason=reason)
    contest.propose(event, at)


def own_conflicts(state: State, member: str, today: date) -> list[MemberConflict]:
    """Returns the conflicts of a member that hold today."""
    return [
        MemberConflict(member, team, each.source)
        for (who, team), found in state.board.conflicts.items()
        for each in found
        if who == member and each.holds(today)
    ]


def waivable_conflicts(state: State, member: str, now: datetime) -> list[tuple[str, str]]:
    """Returns the conflicts of other members, as (member, team), that this member may waive as a coincidence."""
    return [
        (who, team)
        for who, team in state.board.conflicts
        if member and who != member and waivers_left(state.board.conflicts, who, team)
        if not is_recused(state, member, frozenset({team}), now)
    ]
