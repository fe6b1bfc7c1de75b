"""Authenticates API requests by bearer token. Cookies are ignored."""

from dataclasses import dataclass

from allauth.account.adapter import get_adapter
from django.http import HttpRequest
from ninja.security import HttpBearer

from orchestrator.domain.contest_events import Role
from orchestrator.domain.season import Season
from orchestrator.errors import Problem
from orchestrator.web import rate_limits, tokens
from orchestrator.web.api.problems import ApiProblem, unknown
from orchestrator.web.contest_site import ContestSite, current_site, web_settings
from orchestrator.web.models import Account, ApiToken
from orchestrator.web.rate_limits import RequestKind
from orchestrator.web.rights import Actor, Right, actor_of_account, may
from orchestrator.web.tokens import Scope


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of an API request, with the contest. Without a token all fields of `actor` are empty."""

    site: ContestSite
    season: Season
    actor: Actor
    token: ApiToken | None
    budget: str
    """The owner of the rate limits that these requests count against: the token's person, or an address."""

    @property
    def account(self) -> Account:
        """The account. Raises ApiProblem (404) if the request has no token."""
        if self.actor.account is None:
            raise unknown("account")
        return self.actor.account

    def require_team(self, team: str) -> str:
        """Returns `team` if this person is a member of it. Raises ApiProblem (404) otherwise."""
        if not may(self.actor, Right.TEAM, team):
            raise unknown("team")
        return team

    def require_role(self, role: Role) -> None:
        """Raises ApiProblem (403) if this person does not have a role."""
        if role not in self.actor.roles:
            problem = Problem("Authorization", f"this account does not have the role {role}", "ask the organizers")
            raise ApiProblem(403, "role", problem)

    def spend(self, kind: RequestKind, who: str = "") -> None:
        """Counts a request against the limit of `who`, such as a team, or by default of the caller.

        Raises ApiProblem (429) if there were too many.
        """
        spend(self.site, kind, who or self.budget)


def spend(site: ContestSite, kind: RequestKind, who: str) -> None:
    """Counts a request. Raises ApiProblem (429), with the seconds to wait, if there were too many."""
    if seconds := rate_limits.wait_seconds(kind, who, site.clock()):
        problem = Problem("request", f"too many of the kind `{kind}`", f"come again in {seconds} s")
        raise ApiProblem(429, "too-many-requests", problem, {"Retry-After": str(seconds)})


def address_of(request: HttpRequest) -> str:
    """Returns the address that a request comes from, as the trusted proxies say."""
    return f"address {get_adapter().get_client_ip(request)}"


class TokenAuth(HttpBearer):
    """Accepts tokens with a scope and, unless a token is required, requests without one."""

    def __init__(self, scope: Scope, *, required: bool = True) -> None:
        super().__init__()
        self._scope, self._required = scope, required

    def __call__(self, request: HttpRequest) -> Caller | None:
        """Returns the caller, None if the required token is missing. Raises ApiProblem."""
        if not request.headers.get("Authorization") and not self._required:
            site = current_site()
            return _counted(request, Caller(site, site.season(), Actor(), None, address_of(request)))
        caller: Caller | None = super().__call__(request)
        return caller

    def authenticate(self, request: HttpRequest, token: str) -> Caller:
        """Returns the caller of a token. Raises ApiProblem if it is unknown or expired or its scope is too narrow."""
        site = current_site()
        now, row = site.clock(), tokens.find(token, site.clock())
        get_another = f"get another with `sparring login {web_settings().address}`"
        if row is None:
            spend(site, RequestKind.UNKNOWN_TOKEN, address_of(request))
            problem = Problem("Authorization", "this token is unknown, or was revoked", get_another)
            raise ApiProblem(401, "unknown-token", problem, {"WWW-Authenticate": "Bearer"})
        if now >= row.expires:
            what = f"this token expired on {row.expires:%Y-%m-%d at %H:%M} UTC"
            header = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            raise ApiProblem(401, "expired-token", Problem("Authorization", what, get_another), header)
        if self._scope is Scope.SUBMIT and row.scope != Scope.SUBMIT:
            problem = Problem("Authorization", "this token may only read", f"{get_another} --scope submit")
            raise ApiProblem(403, "scope", problem)
        season = site.season()
        actor = actor_of_account(row.account, season)
        return _counted(request, Caller(site, season, actor, row, actor.person))


def _counted(request: HttpRequest, caller: Caller) -> Caller:
    """Counts a request that only reads, and returns the caller. The routes of other requests count their own kind."""
    if request.method in ("GET", "HEAD"):
        caller.spend(RequestKind.READ)
    return caller


def caller_of(request: HttpRequest) -> Caller:
    """Returns the caller that `TokenAuth` found for a request."""
    caller = getattr(request, "auth", None)
    if not isinstance(caller, Caller):
        raise TypeError("this route lacks its auth")
    return caller


PUBLIC = TokenAuth(Scope.READ, required=False)
READ = TokenAuth(Scope.READ)
SUBMIT = TokenAuth(Scope.SUBMIT)
