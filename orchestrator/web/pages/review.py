"""The review board's pages: its members read and decide appeals. A member with a stake in an appeal cannot see it."""

from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpResponseBase
from django.urls import reverse

from orchestrator import redaction
from orchestrator.application.contests import appeals, round_states
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.domain import recusal
from orchestrator.domain.season import Appeal
from orchestrator.reports.evidence import Evidence, evidence_of
from orchestrator.reports.leaderboards import submission_labels
from orchestrator.web.form_actions import act_once, form_status, redirect_after
from orchestrator.web.organizer_forms import DecisionForm
from orchestrator.web.rights import Visit
from orchestrator.web.templating import render
from orchestrator.web.typed_text import typed_in_request


@dataclass(frozen=True, slots=True)
class _Findings:
    """The values with which `findings.html.j2` shows findings."""

    evidence: tuple[Evidence, ...]
    for_organizers: bool
    coverage: tuple[Any, ...] = ()
    id_prefix: str = ""


def appeals_list(visit: Visit) -> HttpResponseBase:
    """Lists the appeals that this person may see: the open ones, then the decided ones."""
    every = list(visit.season.appeals.values())
    seen = [appeal for appeal in every if not recusal.appeal_reason(visit.season, appeal, visit.actor.person)]
    return render(
        visit,
        "review/list.html.j2",
        waiting=[appeal for appeal in seen if appeal.decision is None],
        decided=[appeal for appeal in reversed(seen) if appeal.decision is not None],
        recused=len(every) - len(seen),
    )


def appeal(visit: Visit, appeal_id: str) -> HttpResponseBase:
    """Shows an appeal with the findings that it is about, and records its decision."""
    one = visit.season.appeals.get(appeal_id)
    if one is None:
        raise Http404
    if reason := recusal.appeal_reason(visit.season, one, visit.actor.person):
        text = f"You take no part in this appeal: {reason}."
        return render(
            visit,
            "error.html.j2",
            title="This appeal is not for you",
            text=text,
            lost=typed_in_request(visit.request),
            link=(reverse("review"), "To the appeals"),
            status=403,
        )
    form, problem = DecisionForm(visit.request.POST or None), ""
    if form.is_valid():

        def act(admin: ContestAdmin) -> None:
            upheld = form.cleaned_data["decision"] == "uphold"
            appeals.decide_appeal(admin, appeal_id, form.cleaned_data["reason"], upheld=upheld)

        problem, done = act_once(visit, form, act)
        if not problem:
            return redirect_after(visit, "review", done=done, text="The decision is on the record; the team sees it.")
    return render(
        visit,
        "review/appeal.html.j2",
        appeal=one,
        entry=visit.season.entries[one.submission],
        page=_findings(visit, one),
        on_finding=visit.site.contest().format.rules.on_finding.value,
        form=form,
        problem=problem,
        status=form_status(form, problem),
    )


def _findings(visit: Visit, one: Appeal) -> _Findings:
    """Returns the findings that an appeal is about: the one that it names, or all against its submission.

    The board sees the answers that prove a finding, because it judges them. If the format withholds the outcomes of
    single pictures (C9), which would also show the hidden model's answers, the board sees only what everybody sees.
    """
    contest = visit.site.contest()
    withheld = contest.format.withholds_outcomes
    found = []
    for state in round_states.round_states(visit.site.folder, contest, visit.season):
        if state.results is None:
            continue
        results = redaction.redact_results(state.results) if withheld else state.results
        labels = submission_labels(results)
        found += [
            evidence_of(results, part, labels)
            for part in results.findings
            if part.submission == one.submission and one.finding in ("", part.id)
        ]
    return _Findings(tuple(found), for_organizers=not withheld)
