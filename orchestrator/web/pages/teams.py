"""The pages of teams: founding a team, inviting people, submissions and results."""

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from orchestrator.application.contests import submission_allowance
from orchestrator.application.contests.team_founding import found_team
from orchestrator.domain.contest_events import PersonRecord
from orchestrator.domain.season import Person
from orchestrator.reports.site import Links
from orchestrator.web import invitations
from orchestrator.web.contest_site import web_settings
from orchestrator.web.contest_words import rules_of_teams
from orchestrator.web.form_actions import attempt_change, form_status
from orchestrator.web.fragments import fragment
from orchestrator.web.pages.form_rate_limits import limited
from orchestrator.web.rate_limits import RequestKind
from orchestrator.web.rights import Visit
from orchestrator.web.team_forms import TeamForm
from orchestrator.web.team_results import finding_labels, reports_of
from orchestrator.web.templating import render


@limited(RequestKind.ACT)
def my_teams(visit: Visit) -> HttpResponseBase:
    """Shows a person's teams, and founds a team. The form comes with the rules for teams."""
    form, problem = TeamForm(visit.request.POST or None), ""
    if form.is_valid():
        team, account = form.cleaned_data["team"], visit.account
        founder = PersonRecord(id=account.person, name=account.name, organizer=visit.actor.is_organizer)
        problem = attempt_change(visit, lambda admin: found_team(admin, team, founder))
        if not problem:
            messages.success(visit.request, f"{team} is a team of this contest, and you are in it.")
            return redirect("my-teams")
    return render(
        visit,
        "teams/mine.html.j2",
        form=form,
        problem=problem,
        rules=rules_of_teams(visit.site.contest()),
        bound=visit.season.sides_by_task(Person(visit.account.person, visit.account.name)),
        status=form_status(form, problem),
    )


def team_page(visit: Visit) -> HttpResponseBase:
    """Shows a team's own page."""
    return _render_team_page(visit)


@limited(RequestKind.ACT)
def invite(visit: Visit) -> HttpResponseBase:
    """Makes a link that makes one person a member of the team, and shows it once."""
    if visit.request.method != "POST":
        return redirect(visit.team_url("team"))
    path = invitations.invite(by=visit.actor.person, team=visit.team, now=visit.site.clock())
    response = _render_team_page(visit, link=web_settings().address + path)
    response["Cache-Control"] = "no-store"
    return response


def _render_team_page(visit: Visit, link: str = "") -> HttpResponseBase:
    season, contest = visit.season, visit.site.contest()
    reports = reports_of(visit.site)
    return render(
        visit,
        "teams/team.html.j2",
        people=season.teams[visit.team],
        entries=[entry for entry in reversed(season.entries.values()) if entry.team == visit.team],
        arrivals=_waiting(visit),
        refused_arrivals=[
            each for each in reversed(season.arrivals.values()) if each.team == visit.team and each.outcome == "refused"
        ],
        refused_at_desk=[each for each in season.refusals if each.team == visit.team and not each.arrival],
        tries=list(submission_allowance.tries_left(season, contest, visit.team, visit.site.clock())),
        window=visit.site.submission_window(season),
        findings=reports.findings,
        labels=finding_labels(visit.site),
        has_results=bool(reports.pages[visit.team].participations),
        appeals=[each for each in season.appeals.values() if each.team == visit.team],
        link=link,
        link_days=invitations.LIFETIME.days,
    )


def waiting_fragment(visit: Visit) -> HttpResponseBase:
    """Returns the part of the page with arrivals that wait for admission. Browsers reload it while there are any."""
    arrivals = _waiting(visit)
    return fragment(visit, "teams/waiting.html.j2", ended=not arrivals, arrivals=arrivals)


def _waiting(visit: Visit) -> list[tuple[int, object]]:
    """Returns the team's arrivals without an outcome, each with the number of arrivals that wait before it."""
    return [(number, each) for number, each in enumerate(visit.season.admission_queue()) if each.team == visit.team]


def results(visit: Visit) -> HttpResponseBase:
    """Shows the results of the team's submissions in every round: codes, counts and rounded scores (A2)."""
    page = reports_of(visit.site).pages[visit.team]
    return render(visit, "teams/results.html.j2", page=page, links=Links(index=reverse("home")))
