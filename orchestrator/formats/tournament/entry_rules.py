"""Decides from the season alone who may submit what (rules A1, A4, A5, A6)."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from orchestrator.domain.licences import is_osi_approved
from orchestrator.domain.season import Entry, Person, Season
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import printable
from orchestrator.errors import Problem
from orchestrator.formats.tournament.events import FinalistsPromoted
from orchestrator.formats.tournament.rules import TournamentRules

_SOURCE_SCHEMES = ("https", "http", "git", "ssh", "git+https", "git+ssh")
"""The URL schemes with which a source can be looked up (A6)."""


def entry_problems(season: Season, rules: TournamentRules, team: str, task: str, side: Side) -> list[Problem]:
    """Returns every reason why a team of the season may not submit on this task and side now (A1, A4)."""
    problems = []
    if season.count_attempts(team, task, side) >= rules.submissions_per_team:
        problem = f"{team} has used its {rules.submissions_per_team} submissions for {side} on {task} (A4)"
        problems.append(Problem("team", problem, "the best of them stands; none can be added"))
    for person in season.people_entering(team, task):
        sides = season.sides_by_task(person)
        if other := sides.get(task, set()) - {side}:
            problem = f"{person.name} already plays {', '.join(sorted(other))} on {task}; nobody plays both sides (A1)"
            problems.append(Problem("team", problem, "withdraw the other submission, or enter without this person"))
        if task not in sides and len(sides) >= rules.tasks_per_person:
            problem = f"{person.name} already takes part in {len(sides)} tasks: {', '.join(sorted(sides))} (A1)"
            problems.append(
                Problem("team", problem, f"at most {rules.tasks_per_person} at a time: withdraw from one first")
            )
    return problems


def membership_problems(season: Season, rules: TournamentRules, team: str, people: Iterable[Person]) -> list[Problem]:
    """Returns every reason why these people may not be this team's members: what it and they play already (A1)."""
    team_sides: dict[str, set[Side]] = {}
    for entry in season.entries.values():
        if entry.team == team and entry.is_active:
            team_sides.setdefault(entry.task, set()).add(entry.side)
    problems = []
    for person in people:
        person_sides = season.sides_by_task(person, except_teams=(team,))
        for task in sorted(team_sides.keys() & person_sides.keys()):
            if other := person_sides[task] - team_sides[task]:
                problem = f"{person.name} plays {', '.join(sorted(other))} on {task}, {team} the other side (A1)"
                problems.append(Problem("team", problem, "withdraw one of the submissions, or leave this person out"))
        if team_sides and len(every := team_sides.keys() | person_sides.keys()) > rules.tasks_per_person:
            problem = f"{person.name} would take part in {len(every)} tasks: {', '.join(sorted(every))} (A1)"
            problems.append(
                Problem("team", problem, f"at most {rules.tasks_per_person} at a time: withdraw from one first")
            )
    return problems


def prize_ineligibility(season: Season, entry: Entry) -> str:
    """Returns why a submission gets no prize (rule A5), "" if it may. It names nobody, since leaderboards are public.

    Both the members of its team when it was submitted and the present ones count, whenever they were marked.
    """
    people = (*entry.people, *season.teams.get(entry.team, ()))
    is_barred = entry.organizer_recognized or any(person.organizer for person in people)
    return "a member is of the organizing institution (A5)" if is_barred else ""


def promotion_warnings(season: Season, promoted: FinalistsPromoted) -> list[str]:
    """Returns a warning for a side without a finalist, and for finalists that will not be ranked as they are (A6)."""
    warnings = []
    for side, names in ((Side.ATTACK, promoted.attacks), (Side.DEFENCE, promoted.defences)):
        if names:
            continue
        entered = any(entry.side is side and entry.task == promoted.task for entry in season.entries.values())
        remedy = (
            "read the reasons on the board of the initial round (`sparring board`), remove them"
            if entered
            else f"no {side} was submitted; receive one (`sparring submit`), play the initial round again"
        )
        warnings.append(
            f"no {side} goes on to the final round of {promoted.task}, so nobody will be ranked there: {remedy}, "
            "and promote again"
        )
    for name in (*promoted.attacks, *promoted.defences):
        entry = season.entries.get(name)
        if entry is not None and (missing := release_problems(entry.licence, entry.source)):
            words = "; ".join(f"{problem.place} {problem.what}" for problem in missing)
            warnings.append(
                f"{name} will not be ranked in the final round as it is: {words}. It is ranked once "
                "`sparring set-source` notes what is missing"
            )
    return warnings


def release_problems(licence: str, source: str) -> list[Problem]:
    """Returns what is missing or wrong in a submission's licence and source (rule A6)."""
    problems = []
    if not licence:
        problems.append(Problem("licence", "missing (A6)", "name an OSI-approved licence by its SPDX id"))
    elif not is_osi_approved(licence):
        problem = f"{licence!r} is not the SPDX id of an OSI-approved licence (A6)"
        problems.append(Problem("licence", problem, "see https://spdx.org/licenses/"))
    if not source:
        problems.append(Problem("source", "missing (A6)", "say where the source is published"))
    elif not _is_address(source):
        problem = f"{printable(source, 80)!r} is no address (A6)"
        problems.append(Problem("source", problem, "give the URL where the source is published, or its DOI"))
    return problems


def _is_address(source: str) -> bool:
    """Returns whether this can be looked up: a URL with a host, or a DOI. Nothing is fetched."""
    if re.fullmatch(r"doi:10\.\d{4,9}/\S+", source, re.IGNORECASE):
        return True
    try:
        parts = urlsplit(source)
        has_host = re.search(r"\w\.\w", parts.hostname or "") is not None
        return parts.scheme in _SOURCE_SCHEMES and has_host and not re.search(r"\s", source)
    except ValueError:
        return False
