"""Who may enter what (rules A1, A4, A5, A6), decided from the season alone."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from orchestrator.domain.season import Entry, Person, Season
from orchestrator.domain.submissions import Side
from orchestrator.errors import Problem


@dataclass(frozen=True, slots=True)
class EntryLimits:
    """How much a person and a team may enter: tasks at a time (A1), submissions per team, task and side (A4)."""

    tasks: int = 3
    submissions: int = 3


def entry_problems(season: Season, allowance: EntryLimits, team: str, task: str, side: Side) -> list[Problem]:
    """Returns every reason why this team may not enter this task on this side now."""
    people = season.teams.get(team)
    if people is None:
        known = ", ".join(sorted(season.teams)) or "none yet"
        return [Problem("team", f"there is no team {team!r} (known: {known})", "add it with `sparring team add`")]
    problems = []
    if season.attempts(team, task, side) >= allowance.submissions:
        what = f"{team} has used its {allowance.submissions} submissions for {side} on {task} (A4)"
        problems.append(Problem("team", what, "the best of them stands; none can be added"))
    for person in people:
        taken = season.sides(person)
        if other := taken.get(task, set()) - {side}:
            what = f"{person.name} already plays {', '.join(sorted(other))} on {task}; nobody plays both sides (A1)"
            problems.append(Problem("team", what, "withdraw the other submission, or enter without this person"))
        if task not in taken and len(taken) >= allowance.tasks:
            what = f"{person.name} already takes part in {len(taken)} tasks: {', '.join(sorted(taken))} (A1)"
            problems.append(Problem("team", what, f"at most {allowance.tasks} at a time: withdraw from one first"))
    return problems


def membership_problems(season: Season, allowance: EntryLimits, team: str, people: Iterable[Person]) -> list[Problem]:
    """Returns every reason why these people may not be this team, for what it and they play already (A1)."""
    own: dict[str, set[Side]] = {}
    for entry in season.entries.values():
        if entry.team == team and entry.plays:
            own.setdefault(entry.task, set()).add(entry.side)
    problems = []
    for person in people:
        taken = season.sides(person, besides=(team,))
        for task in sorted(own.keys() & taken.keys()):
            if other := taken[task] - own[task]:
                what = f"{person.name} plays {', '.join(sorted(other))} on {task}, {team} the other side (A1)"
                problems.append(Problem("team", what, "withdraw one of the submissions, or leave this person out"))
        if own and len(every := own.keys() | taken.keys()) > allowance.tasks:
            what = f"{person.name} would take part in {len(every)} tasks: {', '.join(sorted(every))} (A1)"
            problems.append(Problem("team", what, f"at most {allowance.tasks} at a time: withdraw from one first"))
    return problems


def prize_ineligibility(season: Season, entry: Entry) -> str:
    """Returns why a submission gets no prize (rule A5), "" where it may. Boards are public: nobody is named.

    It counts who was in its team when it was handed in, and who is in it now.
    """
    people = (*entry.people, *season.teams.get(entry.team, ()))
    return "a member is of the organizing institution (A5)" if any(person.organizer for person in people) else ""


def release_problems(licence: str, source: str, is_open: Callable[[str], bool]) -> list[Problem]:
    """Returns what is missing of a released source (rule A6); `is_open` says whether an SPDX id is OSI-approved."""
    problems = []
    if not licence:
        problems.append(Problem("licence", "missing (A6)", "name an OSI-approved licence by its SPDX id"))
    elif not is_open(licence):
        what = f"{licence!r} is no SPDX id of an OSI-approved licence (A6)"
        problems.append(Problem("licence", what, "see https://spdx.org/licenses/"))
    if not source:
        problems.append(Problem("source", "missing (A6)", "say where the source is published"))
    return problems
