"""Who may not judge in a contest, because a team of it is theirs."""

from orchestrator.domain.name_matching import person_key
from orchestrator.domain.season import Season
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
