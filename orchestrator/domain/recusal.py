"""Decides who may not judge in a contest because of their own team."""

from orchestrator.domain.name_matching import person_key
from orchestrator.domain.season import Appeal, Season
from orchestrator.domain.text import printable
from orchestrator.errors import Problem


def rater_problems(season: Season, person: str) -> list[Problem]:
    """Returns every reason why a person cannot be a rater of a contest, none if the person can (C7).

    Somebody who is in a team, or was when it submitted, would grade pictures that they know. `person` is an id as in
    `PersonRecord`.
    """
    key = person_key(person)
    teams = {team for team, people in season.teams.items() if any(each.identity_key == key for each in people)}
    teams |= {entry.team for entry in season.entries.values() if any(each.identity_key == key for each in entry.people)}
    return [
        Problem("rater", f"is of the team {printable(team, 80)}, whose pictures are graded", "let somebody else grade")
        for team in sorted(teams)
    ]


def appeal_reason(season: Season, appeal: Appeal, person: str) -> str:
    """Returns why a person may neither see nor decide an appeal, "" if the person may.

    These people are recused: members of the team that appeals, now or when it submitted, and everybody who is bound by
    a submission on the same task, since the decision changes their own rank. A submission that was withdrawn or
    disqualified counts too, because an appeal may bring it back.
    """
    key = person_key(person)
    if any(member.identity_key == key for member in season.teams.get(appeal.team, ())):
        return "you are in the team that appeals"
    entry = season.entries[appeal.submission]
    if key in season.bound_people(entry):
        return "you are in the team that appeals"
    if any(key in season.bound_people(other) for other in season.entries_of_task(entry.task)):
        return "a team of yours competes on the same task"
    return ""
