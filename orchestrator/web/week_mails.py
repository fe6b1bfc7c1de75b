"""Mails of an unrestricted contest: a ruling on a picture to those whom it concerns, an appeal to the board.

A mail names a picture and says where to look. A member of the board gets none about a case of their conflict (U8).
"""

from collections.abc import Iterable

from django.urls import reverse

from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.domain.contest_events import Role
from orchestrator.domain.name_matching import person_key
from orchestrator.formats.unrestricted.state import PictureStatus, State
from orchestrator.formats.unrestricted.visibility import is_recused
from orchestrator.web import mail
from orchestrator.web.contest_site import ContestSite, web_settings
from orchestrator.web.models import Account


def picture_ruled(site: ContestSite, contest: UnrestrictedContest, picture: str) -> None:
    """Tells the teams that a ruling concerns, where there is one: they may appeal against it."""

    def concerned(state: State) -> tuple[str, list[str]] | None:
        found, end = state.pictures[picture], state.appeals_end(state.pictures[picture])
        if found.status not in (PictureStatus.VALID, PictureStatus.INVALID) or end is None:
            return None
        hurt = {each.team for each in state.defences.values() if state.breaks(each, found)}
        teams = {found.team, *hurt}
        people = [person.id for team in teams for person in state.season.teams.get(team, ())]
        shown = f"a valid {found.class_name}" if found.class_name else "not valid"
        return (
            f"Raters find the picture {picture} {shown}. It may be appealed against until {end:%Y-%m-%d %H:%M} UTC.",
            people,
        )

    if (found := contest.read(concerned)) is not None:
        text, people = found
        _send(
            site,
            people,
            f"A ruling on the picture {picture}",
            text,
            reverse("week-picture", kwargs={"picture_id": picture}),
        )


def appeal_waits(site: ContestSite, contest: UnrestrictedContest, appeal: str) -> None:
    """Tells the members of the board who may vote on an appeal that it waits for them."""
    now = site.clock()

    def voters(state: State) -> list[str]:
        teams = state.teams_of(f"appeal:{appeal}")
        members = state.board.members_of(f"appeal:{appeal}")
        eligible = {who for name, who in members.items() if not is_recused(state, name, teams, now)}
        return [person for person in state.season.roles[Role.BOARD] if person_key(person) in eligible]

    page = reverse("board-case", kwargs={"case": f"appeal:{appeal}"})
    _send(site, contest.read(voters), "An appeal waits for the board", "A team appeals against a ruling.", page)


def _send(site: ContestSite, people: Iterable[str], subject: str, text: str, page: str) -> None:
    title = site.contest().file.title
    addresses = Account.objects.filter(person__in=set(people), is_active=True).values_list("email", flat=True)
    mail.send(addresses, f"{title}: {subject}", f"{text}\n\n{web_settings().address}{page}\n")
