"""Mails of an unrestricted contest: rulings, decided appeals and breaks to teams, appeals that wait to the board.

A mail names a picture and links to its page. A board member gets no mail about a case in which they have a conflict
(U8).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.core.cache import cache
from django.db import Error
from django.urls import reverse

from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.domain.contest_events import Role
from orchestrator.domain.name_matching import person_key
from orchestrator.errors import SparringError
from orchestrator.formats.unrestricted.state import Appeal, State
from orchestrator.formats.unrestricted.visibility import is_recused
from orchestrator.logs import get_logger
from orchestrator.web import mail
from orchestrator.web.contest_site import ContestSite, web_settings
from orchestrator.web.models import Account
from orchestrator.web.organization_conflicts import record_organization_conflicts
from orchestrator.web.periodic import repeated

PERIOD_SECONDS = 60.0
RECENT = timedelta(days=1)
"""Older decisions are not mailed, for example when the service starts again after a week."""
SENT_MAIL_SECONDS = 7 * 86_400
"""How long the cache keeps that a mail was sent: longer than `RECENT`."""
_log = get_logger()


def mail_ruling(site: ContestSite, contest: UnrestrictedContest, picture: str) -> None:
    """Mails a picture's ruling, if there is one, to the teams that it concerns: they may appeal against it."""

    def concerned(state: State) -> tuple[str, list[str]] | None:
        found, end = state.pictures[picture], state.appeals_end(state.pictures[picture])
        if end is None:
            return None
        shown = f"a valid {found.class_name}" if found.class_name else "not valid"
        return (
            f"The picture {picture} is ruled {shown}. It may be appealed against until {end:%Y-%m-%d %H:%M} UTC.",
            _members(state, {found.team, *state.teams_broken_by(found)}),
        )

    if (found := contest.read(concerned)) is not None:
        text, people = found
        _send(site, people, f"A ruling on the picture {picture}", text, _picture_page(picture))


def mail_waiting_appeal(site: ContestSite, contest: UnrestrictedContest, appeal: str) -> None:
    """Mails the board members who may vote on an appeal that it waits for them."""
    record_organization_conflicts(site, contest)
    voters = contest.read(lambda state: _voters(state, appeal, site.clock()))
    text = "A team appeals against a ruling."
    _send(site, voters, "An appeal waits for the board", text, _case_page(appeal))


def mail_outcomes(site: ContestSite) -> None:
    """Mails what came out within the last day, each once: decided appeals, panels that do not agree, broken defences.

    Panels' decisions and breaks are due events, which any process may record, such as a worker that sends no mail. All
    processes of the service share the record of sent mails. A fault is logged and left to the next call.
    """
    try:
        if (contest := site.unrestricted()) is None:
            return
        now = site.clock()
        if contest.read(lambda state: any(_undecided(state, now - RECENT))):
            record_organization_conflicts(site, contest)
        for key, people, subject, text, page in contest.read(lambda state: list(_outcomes(state, now))):
            if cache.add(f"mailed-{key}", 1, SENT_MAIL_SECONDS):
                _send(site, people, subject, text, page)
    except (Error, SparringError) as error:
        _log.warning("mails_failed", reason=str(error))


@contextmanager
def mailing_outcomes(site: ContestSite) -> Iterator[None]:
    """Calls `mail_outcomes` every minute while the block lasts."""
    with repeated("mails", lambda: mail_outcomes(site), PERIOD_SECONDS):
        yield


def _outcomes(state: State, now: datetime) -> Iterator[tuple[str, list[str], str, str, str]]:
    """Yields the mails to send: a key, the ids of the people concerned, the subject, the text, and the page's path."""
    since = now - RECENT
    for appeal in state.appeals.values():
        if appeal.decision is not None and appeal.decision.at >= since:
            picture, said = state.pictures[appeal.picture], appeal.decision
            text = f"The {said.by} decided the appeal about the picture {picture.id}: {said.outcome}."
            concerned = _members(state, {picture.team, appeal.team, *state.teams_broken_by(picture)})
            subject = f"An appeal about {picture.id} is decided"
            yield f"appeal-{appeal.id}", concerned, subject, text, _picture_page(picture.id)
    for appeal, end in _undecided(state, since):
        subject = "The raters do not agree about an appeal"
        text = f"The ruling stands if the board does not decide before {end:%Y-%m-%d %H:%M} UTC."
        yield f"panel-{appeal.id}", _voters(state, appeal.id, now), subject, text, _case_page(appeal.id)
    for defence in state.defences.values():
        if defence.broken_at is not None and defence.broken_at >= since:
            picture_id, subject = defence.broken_by[0], f"{defence.id} is broken"
            text = f"The picture {picture_id} is settled: it breaks the defence {defence.id}."
            yield f"broken-{defence.id}", _members(state, [defence.team]), subject, text, _picture_page(picture_id)


def _undecided(state: State, since: datetime) -> Iterator[tuple[Appeal, datetime]]:
    """Yields the open appeals whose panel has not agreed since then, and until when the board may decide each."""
    for appeal in (state.appeals[name] for name in state.open_appeals):
        end = state.board_decides_until(appeal)
        if end is not None and appeal.rated_at is not None and appeal.rated_at >= since:
            yield appeal, end


def _voters(state: State, appeal: str, now: datetime) -> list[str]:
    """Returns the ids of the board members who may vote on an appeal: those without a conflict (U8)."""
    case = f"appeal:{appeal}"
    teams, members = state.teams_of(case), state.board.members_of(case)
    eligible = {who for name, who in members.items() if not is_recused(state, name, teams, now)}
    return [person for person in state.season.roles[Role.BOARD] if person_key(person) in eligible]


def _picture_page(picture: str) -> str:
    return reverse("week-picture", kwargs={"picture_id": picture})


def _case_page(appeal: str) -> str:
    return reverse("board-case", kwargs={"case": f"appeal:{appeal}"})


def _members(state: State, teams: Iterable[str]) -> list[str]:
    return [person.id for team in teams for person in state.season.teams.get(team, ())]


def _send(site: ContestSite, people: Iterable[str], subject: str, text: str, page: str) -> None:
    title = site.contest().file.title
    addresses = Account.objects.filter(person__in=set(people), is_active=True).values_list("email", flat=True)
    mail.send(addresses, f"{title}: {subject}", f"{text}\n\n{web_settings().address}{page}\n")
