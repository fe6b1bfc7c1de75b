"""What is noted when a team is added: its people, and whoever is thereby known to be of the organizing institution."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from orchestrator.domain import acts
from orchestrator.domain.entrants import Allowance, joining
from orchestrator.domain.identity import is_plain
from orchestrator.domain.season import Person, Season
from orchestrator.domain.text import printable
from orchestrator.errors import Rejected, UsageError

Team = tuple[str, list[Person]]


def added(season: Season, allowance: Allowance | None, team: str, people: Sequence[acts.PersonRecord]) -> list[Team]:
    """Returns the team and every other one that changes by it, with the people that each has from now on.

    Who is of the organizing institution in one team is so in every other (A5).

    Raises:
        UsageError: there is nobody in it, or one person twice, or an id that cannot be compared with others; or
            another team's name differs in case, spaces or invisible characters only.
        Rejected: what the team and its people play already cannot be played by the same people (A1).
    """
    for person in people:
        if not is_plain(person.id):
            what = "is no plain word or address to know a person by"
            raise UsageError(f"{printable(person.id, 80)!r} {what}; write it like ada@example.org")
    if other := season.named_like(team):
        raise UsageError(f"there is a team {printable(other, 80)!r} already; write its name so, or take another")
    persons = [Person(**person.model_dump()) for person in people]
    if not people or len({person.known for person in persons}) != len(persons):
        raise UsageError(f"team {team!r}: give its people, each once (`--member ID:NAME`)")
    if allowance is not None and (problems := joining(season, allowance, team, persons)):
        raise Rejected(f"team {team}", problems)
    known = season.organizers() | {person.known for person in persons if person.organizer}
    others = [(name, _marked(members, known)) for name, members in season.teams.items() if name != team]
    changed = [(name, members) for name, members in others if tuple(members) != season.teams[name]]
    return [(team, _marked(persons, known)), *changed]


def _marked(people: Iterable[Person], organizers: frozenset[str]) -> list[Person]:
    return [replace(person, organizer=person.organizer or person.known in organizers) for person in people]
