"""The organizers' pages: the overview, announcements, roles and invitations, and the ledger in words."""

import shutil

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponseBase
from django.shortcuts import redirect

from orchestrator.application.contests import announcements, ledger_in_words, roles, round_states, unrestricted_views
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.domain import recusal
from orchestrator.domain.contest_events import FormatEvent, Role
from orchestrator.formats.unrestricted.due_events import ACTOR
from orchestrator.formats.unrestricted.events import PictureReceived
from orchestrator.formats.unrestricted.state import State
from orchestrator.formats.unrestricted.visibility import tells_of_conflict
from orchestrator.web import contest_words, invitations
from orchestrator.web.contest_site import web_settings
from orchestrator.web.form_actions import act_once, form_status, redirect_after
from orchestrator.web.organizer_forms import AnnouncementForm, InviteForm, RevokeForm
from orchestrator.web.pages import week_desk
from orchestrator.web.pages.organizer_submissions import refusals
from orchestrator.web.people import names_of
from orchestrator.web.rights import Visit
from orchestrator.web.site_messages import for_site
from orchestrator.web.templating import render
from orchestrator.web.unrestricted_pages import contest_of

_RECENT_REFUSALS = 10
_ENTRIES_PER_PAGE = 100
_LINK = "invitation_link"


def overview(visit: Visit) -> HttpResponseBase:
    """Shows what waits for the organizers."""
    contest, season = visit.site.contest(), visit.season
    states = round_states.round_states(visit.site.folder, contest, season)
    window = visit.site.submission_window(season)
    weeks = visit.site.unrestricted()
    hidden = _hidden_appeals(visit)
    waiting, requests = list(season.pending_arrivals.values()), season.round_requests.values()
    return render(
        visit,
        "organize/overview.html.j2",
        states=states,
        desk=None if weeks is None else weeks.read(week_desk.waiting),
        findings=round_states.open_findings(states, season),
        appeals=[appeal for appeal in season.appeals.values() if appeal.decision is None and appeal.id not in hidden],
        hidden_appeals=hidden,
        arrivals=waiting,
        refusals=refusals(visit)[:_RECENT_REFUSALS],
        file_problem=visit.site.file_problem,
        disk=shutil.disk_usage(visit.site.folder.path),
        waits_since=min((*(one.time for one in waiting), *(one.time for one in requests)), default=""),
        window_in_words=contest_words.window_in_words(window),
        dates=contest_words.dates(window),
        is_board=Role.BOARD in visit.actor.roles,
        names=names_of(season),
    )


def announce(visit: Visit) -> HttpResponseBase:
    """Publishes an announcement in three steps: write, preview, publish."""
    form, problem, preview = AnnouncementForm(visit.request.POST or None), "", None
    if form.is_valid():
        title, text = form.cleaned_data["title"], form.cleaned_data["text"]
        preview = (title, text)
        match visit.request.POST.get("step"):
            case "publish":
                problem, done = act_once(visit, form, lambda admin: announcements.announce(admin, title, text))
                if not problem:
                    return redirect_after(visit, "organize-announce", done=done, text="It is announced.")
            case "change":
                preview = None
    return render(
        visit,
        "organize/announce.html.j2",
        form=form,
        preview=preview,
        problem=problem,
        said=list(reversed(visit.season.announcements)),
        status=form_status(form, problem),
        now=visit.site.clock(),
        names=names_of(visit.season),
    )


def people(visit: Visit) -> HttpResponseBase:
    """Shows the holders of roles and the open invitations; makes an invitation, whose link is shown once."""
    form = InviteForm(visit.request.POST or None)
    if form.is_valid():
        role = Role(form.cleaned_data["role"])
        path = invitations.invite(by=visit.actor.person, role=role, now=visit.site.clock())
        visit.request.session[_LINK] = web_settings().address + path
        return redirect("organize-people")
    return render(
        visit,
        "organize/people.html.j2",
        form=form,
        link=visit.request.session.pop(_LINK, ""),
        open_invitations=invitations.open_role_invitations(visit.site.clock()),
        titles=invitations.ROLE_TITLES,
        names=names_of(visit.season),
    )


def withdraw_invitation(visit: Visit, key: int) -> HttpResponseBase:
    """Withdraws an invitation to a role, whose link then no longer works."""
    if not invitations.is_role_invitation(key):
        raise Http404
    if visit.request.method == "POST":
        invitations.withdraw_role_invitation(key)
        messages.success(visit.request, "The link no longer works.")
    return redirect("organize-people")


def revoke(visit: Visit, role: str, person: str) -> HttpResponseBase:
    """Revokes a person's role."""
    if role not in set(Role) or person not in visit.season.roles[Role(role)]:
        raise Http404
    form, problem = RevokeForm(visit.request.POST or None), ""
    if form.is_valid():

        def act(admin: ContestAdmin) -> None:
            roles.revoke_role(admin, person, Role(role), form.cleaned_data["reason"])

        problem, done = act_once(visit, form, act)
        if not problem:
            # organizers who revoked their own role can no longer open that page
            page = "home" if (role, person) == (Role.ORGANIZER, visit.actor.person) else "organize-people"
            return redirect_after(visit, page, done=done, text="The role is taken away.")
    return render(
        visit,
        "organize/revoke.html.j2",
        form=form,
        problem=problem,
        person=visit.season.roles[Role(role)][person],
        title=invitations.ROLE_TITLES[Role(role)],
        ends_seat=role == Role.BOARD and visit.site.unrestricted() is not None,
        status=form_status(form, problem),
    )


def _shown_entries(visit: Visit) -> list[ledger_in_words.ContestEntry]:
    """Returns the entries of the ledger that this organizer may see.

    Only their own teams see the pictures of an open week (U5). An organizer who is also on the review board sees no
    case in which they have a stake (U8).
    """
    every, now = ledger_in_words.read_contest_entries(visit.site.folder), visit.site.clock()
    if visit.site.unrestricted() is None:
        hidden = _hidden_appeals(visit)
        return [each for each in every if getattr(each.event, "appeal", "") not in hidden]
    contest = contest_of(visit)

    def shown(state: State) -> list[ledger_in_words.ContestEntry]:
        seat = unrestricted_views.member_name(state, visit.actor.person)
        return [
            each
            for each in every
            if not (isinstance(each.event, PictureReceived) and each.event.picture in state.week_pictures)
            and not (isinstance(each.event, FormatEvent) and tells_of_conflict(state, each.event, seat, now))
        ]

    return contest.read(shown)


def _hidden_appeals(visit: Visit) -> frozenset[str]:
    """Returns the ids of the appeals in which this organizer, as a member of the review board, has a stake."""
    if Role.BOARD not in visit.actor.roles:
        return frozenset()
    season, person = visit.season, visit.actor.person
    return frozenset(each.id for each in season.appeals.values() if recusal.appeal_reason(season, each, person))


def _kind_in_words(entry: ledger_in_words.ContestEntry) -> str:
    return entry.event.kind_in_words if isinstance(entry.event, FormatEvent) else entry.kind.replace("_", " ")


def ledger(visit: Visit) -> HttpResponseBase:
    """Shows the contest's ledger in words, the newest entries first."""
    every = _shown_entries(visit)
    kinds = sorted({(entry.kind, _kind_in_words(entry)) for entry in every}, key=lambda each: each[1])
    kind = visit.request.GET.get("kind", "")
    shown = [entry for entry in reversed(every) if kind in ("", entry.kind)]
    page = Paginator(shown, _ENTRIES_PER_PAGE).get_page(visit.request.GET.get("page"))
    names = names_of(visit.season)
    rows = [
        (
            entry,
            "The rules" if entry.event.actor == ACTOR else names(entry.event.actor),
            ledger_in_words.sentence(entry.event, visit.season, names),
            for_site(ledger_in_words.reason_of(entry.event), str(visit.site.folder.path)),
        )
        for entry in page.object_list
    ]
    return render(visit, "organize/ledger.html.j2", rows=rows, page=page, kinds=kinds, kind=kind, total=len(shown))
