"""The roles of people in a contest, such as organizer and rater, besides membership in its teams."""

from orchestrator.application.contests import teams
from orchestrator.application.contests.administration import ContestAdmin, validated
from orchestrator.domain import contest_events, recusal
from orchestrator.domain.contest_events import Role
from orchestrator.domain.name_matching import is_comparable
from orchestrator.domain.text import printable
from orchestrator.errors import Rejected, UsageError


def grant_role(admin: ContestAdmin, person: contest_events.PersonRecord, role: Role) -> None:
    """Gives a person a role. The teams of a new organizer are ranked from then on and win no prize (A5).

    Raises:
        UsageError: the person already has the role under this name, or the id is no plain word.
        Rejected: the person may not be a rater because of their team (C7).
    """
    if not is_comparable(person.id):
        raise UsageError(
            f"{printable(person.id, 80)!r} is no plain word to know a person by; write it like person-4f2a"
        )
    with admin.alone():
        known = admin.season.roles[role].get(person.id)
        if known is not None and known.name == person.name:
            raise UsageError(f"{printable(person.id, 80)} is {role} already; nothing is left to do")
        if role is Role.RATER and (problems := recusal.rater_problems(admin.season, person.id)):
            raise Rejected("role of a rater", problems)
        admin.append_event(validated(contest_events.RoleGranted, actor=admin.actor, person=person, role=role))
        admin.record_members(teams.newly_known_organizers(admin.season))


def revoke_role(admin: ContestAdmin, person: str, role: Role, reason: str) -> None:
    """Takes a role from a person, by id. Raises UsageError if they do not have it, or are the last organizer."""
    with admin.alone():
        people = admin.season.roles[role]
        if person not in people:
            known = ", ".join(printable(each, 80) for each in people) or "nobody"
            raise UsageError(f"{printable(person, 80)!r} is no {role} of this contest (known: {known})")
        if role is Role.ORGANIZER and len(people) == 1:
            raise UsageError("this is the last organizer; make somebody else an organizer first")
        admin.append_event(
            validated(contest_events.RoleRevoked, actor=admin.actor, person=person, role=role, reason=reason)
        )
