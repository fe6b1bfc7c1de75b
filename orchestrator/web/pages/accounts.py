"""The pages of a person's account: profile, deletion of the account, and invitations."""

from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpResponseBase
from django.shortcuts import redirect

from orchestrator.domain.season import Person
from orchestrator.domain.submissions import Side
from orchestrator.web import invitations
from orchestrator.web.account_forms import ProfileForm
from orchestrator.web.contest_words import rules_of_teams
from orchestrator.web.form_actions import attempt
from orchestrator.web.invitations import FoundInvitation
from orchestrator.web.rights import Visit
from orchestrator.web.templating import render


def profile(visit: Visit) -> HttpResponseBase:
    """Shows and changes a person's name, and links what they can do with their account."""
    form = ProfileForm(visit.request.POST or None, instance=visit.account)
    if form.is_valid():
        form.save()
        messages.success(visit.request, "Your name is changed here. Teams that you are in already keep the old one.")
        return redirect("profile")
    return render(visit, "account/profile.html.j2", form=form)


def delete_account(visit: Visit) -> HttpResponseBase:
    """Deletes an account: address, name, sessions, tokens. Ledgers keep the opaque id and the name given there."""
    if visit.request.method == "POST":
        account = visit.account
        logout(visit.request)
        account.delete()
        messages.success(visit.request, "Your account is deleted.")
        return redirect("home")
    return render(visit, "account/delete.html.j2")


def invitation(visit: Visit, secret: str) -> HttpResponseBase:
    """Shows an invitation, and accepts it."""
    found = invitations.find(secret, visit.site.clock())
    if found is None:
        raise Http404
    if visit.request.method != "POST":
        return _show_invitation(visit, found)
    if visit.actor.account is None:
        return redirect_to_login(visit.request.get_full_path())
    account = visit.account
    if problem := attempt(lambda: invitations.accept(visit.site, found, account)):
        return _show_invitation(visit, found, problem)
    messages.success(visit.request, f"Welcome: you are {found.description} now.")
    weeks = visit.site.unrestricted() is not None
    pages = {"organizer": "organize", "rater": "judge" if weeks else "rate", "board": "board" if weeks else "home"}
    return redirect(pages.get(found.role, "my-teams"))


def _show_invitation(visit: Visit, found: FoundInvitation, problem: str = "") -> HttpResponseBase:
    """Returns the page of an invitation; to a team with the rules for people and the sides already played (A1)."""
    season, account = visit.season, visit.actor.account
    played: dict[str, set[Side]] = {}
    for entry in season.entries.values():
        if entry.is_active and entry.team == found.team:
            played.setdefault(entry.task, set()).add(entry.side)
    return render(
        visit,
        "account/invitation.html.j2",
        invitation=found,
        problem=problem,
        rules=rules_of_teams(visit.site.contest()) if found.team else [],
        played=played,
        bound=season.sides_by_task(Person(account.person, account.name)) if account else {},
        status=409 if problem else 200,
    )
