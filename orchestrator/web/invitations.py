"""Invitations: links that give membership of a team, or a role. Only the digest of a link's secret is kept."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from django.db import transaction
from django.db.models import F, Q
from django.urls import reverse

from orchestrator.application.contests import roles
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.errors import UsageError
from orchestrator.web.contest_site import ContestSite
from orchestrator.web.models import Account, Invitation

_SECRET_BYTES = 24
LIFETIME = timedelta(days=14)
COMMAND_LINE = "organizer"
"""The inviting person of the first organizer's link, which the service makes when it starts."""
ROLE_TITLES = {
    Role.ORGANIZER: "an organizer of this contest",
    Role.RATER: "a rater of this contest",
    Role.BOARD: "a member of the review board",
}


@dataclass(frozen=True, slots=True)
class FoundInvitation:
    """A valid invitation, to a team or to a role."""

    key: int
    team: str
    role: str
    invited_by: str

    @property
    def makes_first_organizer(self) -> bool:
        """Whether this is the link that the service printed when it started, for a contest without an organizer."""
        return self.role == Role.ORGANIZER.value and self.invited_by == COMMAND_LINE

    @property
    def description(self) -> str:
        """What a person who accepts the invitation becomes."""
        return ROLE_TITLES[Role(self.role)] if self.role else f"a member of {self.team}"


def invite(
    *, by: str, team: str = "", role: Role | None = None, now: datetime, uses: int = 1, lifetime: timedelta = LIFETIME
) -> str:
    """Makes an invitation and returns the path of its link, which cannot be shown again: only a digest is kept."""
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    Invitation.objects.create(
        digest=_digest(secret),
        team=team,
        role="" if role is None else role.value,
        invited_by=by,
        expires=now + lifetime,
        uses_left=uses,
    )
    return reverse("invitation", kwargs={"secret": secret})


def find(secret: str, now: datetime) -> FoundInvitation | None:
    """Returns the invitation of a link; None if there is none, or if it has expired or is used up."""
    row = Invitation.objects.filter(digest=_digest(secret), uses_left__gt=0, expires__gt=now).first()
    if row is None:
        return None
    return FoundInvitation(row.pk, row.team, row.role, row.invited_by)


def accept(site: ContestSite, invitation: FoundInvitation, account: Account) -> None:
    """Gives a person the role or membership of an invitation: appends it to the ledger, and counts one use.

    Raises:
        UsageError: the invitation expired or was used up meanwhile, or the contest's rules do not allow it.
        Rejected: the rules for teams do not allow it (A1).
    """
    with transaction.atomic():
        held = Invitation.objects.filter(pk=invitation.key, uses_left__gt=0, expires__gt=site.clock())
        if not held.update(uses_left=F("uses_left") - 1):
            raise UsageError("this invitation was used already or has expired; ask for another")
        person = PersonRecord(id=account.person, name=account.name)
        if invitation.makes_first_organizer and site.season().roles.get(Role.ORGANIZER):
            raise UsageError("this contest already has an organizer; ask for an invitation")
        if invitation.role:
            with site.administer(invitation.invited_by) as admin:
                roles.grant_role(admin, person, Role(invitation.role))
            return
        with site.administer(account.person) as admin:
            members = admin.season.teams.get(invitation.team, ())
            people = [PersonRecord(id=p.id, name=p.name, organizer=p.organizer) for p in members]
            if all(p.id != person.id for p in people):
                admin.add_team(invitation.team, [*people, person])


def open_role_invitations(now: datetime) -> list[tuple[FoundInvitation, datetime]]:
    """Returns the valid invitations to roles, each with the time when it expires."""
    rows = Invitation.objects.filter(uses_left__gt=0, expires__gt=now).exclude(role="").order_by("expires", "pk")
    return [(FoundInvitation(row.pk, row.team, row.role, row.invited_by), row.expires) for row in rows]


def is_role_invitation(key: int) -> bool:
    """Returns whether there is an invitation to a role with this key."""
    return Invitation.objects.filter(pk=key).exclude(role="").exists()


def withdraw_role_invitation(key: int) -> None:
    """Deletes an invitation to a role, if it still exists. Its link no longer works."""
    Invitation.objects.filter(pk=key).exclude(role="").delete()


def sweep(now: datetime) -> None:
    """Removes invitations that have expired or are used up."""
    Invitation.objects.filter(Q(expires__lte=now) | Q(uses_left=0)).delete()


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
