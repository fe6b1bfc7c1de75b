"""Who may open which page: rights as data, checked in one place.

Rights are stored only in the contest's ledger: teams and roles are folded from it for each request. Every URL in
`urls.py` names its right; a test opens every URL as each kind of person and compares the answers with a table.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase
from django.urls import reverse

from orchestrator.domain.contest_events import Role
from orchestrator.domain.season import Season
from orchestrator.reports import file_names
from orchestrator.web.contest_site import ContestSite, current_site
from orchestrator.web.models import Account
from orchestrator.web.signed_out import answer_signed_out


class Right(StrEnum):
    """What a person needs to open a page."""

    EVERYBODY = "everybody"
    SIGNED_IN = "signed in"
    TEAM = "member of the team"
    """Member of the team that the address names; everybody else gets 404."""
    ORGANIZER = "organizer"
    RATER = "rater"
    BOARD = "review board"


_ROLES = {Right.ORGANIZER: Role.ORGANIZER, Right.RATER: Role.RATER, Right.BOARD: Role.BOARD}


@dataclass(frozen=True, slots=True)
class Actor:
    """The person who sends a request, with the teams and roles that the contest's ledger gives them.

    Attributes:
        account: None for a visitor who is not signed in.
        teams: the names of the teams that this person is in, in the order of the ledger.
        roles: the roles that this person has.
    """

    account: Account | None = None
    teams: tuple[str, ...] = ()
    roles: frozenset[Role] = frozenset()

    @property
    def person(self) -> str:
        """The person's id in ledgers; empty for a visitor who is not signed in."""
        return self.account.person if self.account else ""

    @property
    def is_organizer(self) -> bool:
        """Whether this person organizes the contest."""
        return Role.ORGANIZER in self.roles

    @property
    def is_rater(self) -> bool:
        """Whether this person judges pictures of the contest."""
        return Role.RATER in self.roles


@dataclass(frozen=True, slots=True)
class Visit:
    """One request as views get it, with its contest and its actor."""

    request: HttpRequest
    site: ContestSite
    season: Season
    actor: Actor
    team: str = ""
    """The team that the address names; empty if it names none."""
    slugs: Mapping[str, str] = field(default_factory=dict)
    """Each team's slug in addresses, computed once because a page may have hundreds of links."""

    def team_url(self, page: str, team: str = "", **more: object) -> str:
        """Returns the address of a page of a team; by default of the team that this address names."""
        return reverse(page, kwargs={"team": self.slugs[team or self.team], **more})

    @property
    def account(self) -> Account:
        """The account of the signed-in person. Raises PermissionDenied if nobody is signed in."""
        if self.actor.account is None:
            raise PermissionDenied
        return self.actor.account


View = Callable[..., HttpResponseBase]
"""Takes a `Visit` and the parameters of the address."""


def actor_of(request: HttpRequest, season: Season) -> Actor:
    """Returns the actor of a request."""
    user = request.user
    return actor_of_account(user, season) if isinstance(user, Account) else Actor()


def actor_of_account(account: Account, season: Season) -> Actor:
    """Returns the actor with an account, with the teams and roles that the season gives them."""
    teams = tuple(name for name, people in season.teams.items() if any(p.id == account.person for p in people))
    roles = frozenset(role for role, people in season.roles.items() if account.person in people)
    return Actor(account, teams, roles)


def team_slugs(season: Season) -> dict[str, str]:
    """Returns each team's slug in addresses. A slug never changes, because slugs are made in the ledger's order."""
    return file_names.unique_file_names(season.teams, "team")


def may(actor: Actor, right: Right, team: str = "") -> bool:
    """Returns whether an actor has a right; `team` is the team that the address names."""
    match right:
        case Right.EVERYBODY:
            return True
        case Right.SIGNED_IN:
            return actor.account is not None
        case Right.TEAM:
            return team in actor.teams
        case _:
            return _ROLES[right] in actor.roles


def visit_of(request: HttpRequest, right: Right, slug: str | None) -> Visit | HttpResponseBase:
    """Returns the visit of a person who has a right, or the answer of `answer_signed_out` if nobody is signed in.

    Args:
        request: the request.
        right: the right that its address needs.
        slug: the team's slug in the address, None if it has none.

    Raises:
        Http404: there is no such team, or the person is not a member of it.
        PermissionDenied: the person does not have the role that the page needs.
    """
    site = current_site()
    season = site.season()
    actor, slugs = actor_of(request, season), team_slugs(season)
    team = next((name for name, own in slugs.items() if own == slug), "")
    if not may(actor, right, team):
        if actor.account is None:  # whether or not the team exists, so that the answer does not reveal which do
            return answer_signed_out(request)
        raise Http404 if right is Right.TEAM else PermissionDenied
    if slug is not None and not team:
        raise Http404
    return Visit(request, site, season, actor, team, slugs)


def allowed(view: View, right: Right) -> Callable[..., HttpResponseBase]:
    """Returns a Django view that calls `view` if the person has a right, and otherwise answers as `visit_of` says."""

    @functools.wraps(view)
    def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        visit = visit_of(request, right, kwargs.pop("team", None))
        if not isinstance(visit, Visit):
            return visit
        request.visit = visit  # type: ignore[attr-defined]  # for templates
        return view(visit, **kwargs)

    guarded.right = right  # type: ignore[attr-defined]  # for `body_admission`, and for the tests of the table of rights
    return guarded
