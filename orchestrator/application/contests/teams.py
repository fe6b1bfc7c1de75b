"""Computes the changes when a team is added: its people, and who is thereby of the organizing institution (A5)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.domain import contest_events
from orchestrator.domain.contest_format import Format
from orchestrator.domain.name_matching import fold_name, is_comparable
from orchestrator.domain.season import Person, Season
from orchestrator.domain.text import printable
from orchestrator.errors import Rejected, UsageError

TeamMembers = tuple[str, list[Person]]


def team_changes(
    season: Season, contest_format: Format[Any], team: str, people: Sequence[contest_events.PersonRecord]
) -> list[TeamMembers]:
    """Returns the team, and all other teams that change because of it, with the people whom each has from now on.

    A person marked as of the organizing institution in one team is marked so in all teams (A5).

    Raises:
        UsageError: the team is empty or names a person twice; an id cannot be compared with others; a name has no
            visible character; or another team's name differs only in case, spaces or invisible characters.
        Rejected: these people may not be in one team because of what they and the team play already (A1).
    """
    if team not in season.teams and not fold_name(team):
        raise UsageError("a team's name needs a character that people can see; take another")
    for person in people:
        if not fold_name(person.name):
            raise UsageError(f"the name of {printable(person.id, 80)!r} needs a character that people can see")
        if not is_comparable(person.id):
            problem = "is no plain word or address to know a person by"
            raise UsageError(f"{printable(person.id, 80)!r} {problem}; write it like ada@example.org")
    if other := season.find_similar_team(team):
        raise UsageError(f"there is a team {printable(other, 80)!r} already; write its name so, or take another")
    persons = [Person(**person.model_dump()) for person in people]
    if not people or len({person.identity_key for person in persons}) != len(persons):
        raise UsageError(f"team {team!r}: give its people, each once (`--member ID:NAME`)")
    if problems := contest_format.membership_problems(season, team, persons):
        raise Rejected(f"team {team}", problems)
    known = season.organizer_keys() | {person.identity_key for person in persons if person.organizer}
    changed = [(name, members) for name, members in _teams_with_organizers(season, known) if name != team]
    return [(team, _with_known_organizers(persons, known)), *changed]


def newly_known_organizers(season: Season) -> list[TeamMembers]:
    """Returns the teams with a person who is of the organizing institution and not marked so there yet (A5)."""
    return _teams_with_organizers(season, season.organizer_keys())


def _teams_with_organizers(season: Season, known: frozenset[str]) -> list[TeamMembers]:
    """Returns the teams in which marking the people `known` as organizers changes somebody, with their new people."""
    marked = [(name, _with_known_organizers(members, known)) for name, members in season.teams.items()]
    return [(name, members) for name, members in marked if tuple(members) != season.teams[name]]


def _with_known_organizers(people: Iterable[Person], organizers: frozenset[str]) -> list[Person]:
    return [replace(person, organizer=person.organizer or person.identity_key in organizers) for person in people]
