"""Founds a team with one person; others join it later."""

from orchestrator.application.contests.administration import ContestAdmin, validated
from orchestrator.domain import contest_events
from orchestrator.domain.text import printable
from orchestrator.errors import UsageError


def found_team(admin: ContestAdmin, team: str, founder: contest_events.PersonRecord) -> None:
    """Records a new team with its first person. Does nothing if this person is already in a team of this name.

    Raises:
        UsageError: another team has this name or one too similar, or the name has no visible character.
        Rejected: the rules for teams are against it.
    """
    validated(contest_events.TeamAdded, actor=admin.actor, team=team, people=[founder])
    with admin.alone():
        people = admin.season.teams.get(team)
        if people is None:
            admin.add_team(team, [founder])
        elif all(person.id != founder.id for person in people):
            raise UsageError(
                f"there is a team {printable(team, 80)!r} already; take another name, or ask to be invited"
            )
