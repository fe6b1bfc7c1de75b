"""Who may not judge in a contest, because a team of it is theirs."""

from orchestrator.domain.name_matching import person_key
from orchestrator.domain.season import Appeal, Season
from orchestrator.domain.text import printable
from orchestrator.errors import Problem


def rater_problems(season: Season, person: str) -> list[Problem]:
    """Returns why somebody cannot be a rater of a contest, nothing if they can (C7).

    Who is in a team, or was when it handed in a submission, would grade pictures that they know. `person` is an id as
    in `PersonRecord`.
    """
    key = person_key(person)
    teams = {team for team, people in season.teams.items() if any(each.identity_key == key for each in people)}
    teams |= {entry.team for entry in season.entries.values() if any(each.identity_key == key for each in entry.people)}
    return [
        Problem("rater", f"is of the team {printable(team, 80)}, whose pictures are graded", "let somebody else grade")
        for team in sorted(teams)
    ]


def appeal_reason(season: Season, appeal: Appeal, person: str) -> str:
    """Returns why a person neither sees nor decides an appeal, "" where nothing is against it.

    Recused is who is in the team that appeals, now or when it handed in, and whoever is bound by a submission on the
    same task: its outcome moves their own rank. A submission that was withdrawn or disqualified counts too, for an
    appeal may bring it back.
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
