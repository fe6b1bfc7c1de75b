"""Who of the review board may not take part in an appeal."""

from orchestrator.domain.name_matching import person_key
from orchestrator.domain.season import Appeal, Season


def recusal_reason(season: Season, appeal: Appeal, person: str) -> str:
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
