"""The pages of a team's submissions: the form, the steps of admission, receipts, withdrawals, corrections, appeals."""

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.http import Http404, HttpResponseBase
from django.shortcuts import redirect

from orchestrator.application.contests import appeals, arrivals, submission_allowance, unrestricted_views
from orchestrator.application.contests.admission_steps import AdmissionStep
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.contests.team_reports import TeamFinding
from orchestrator.domain.season import Arrival, Entry
from orchestrator.domain.submissions import Side
from orchestrator.errors import Rejected
from orchestrator.web import uploads
from orchestrator.web.arrival_time import last_byte_time
from orchestrator.web.contest_site import web_settings
from orchestrator.web.file_responses import attachment
from orchestrator.web.form_actions import attempt, attempt_change, form_status
from orchestrator.web.fragments import fragment
from orchestrator.web.pages.form_rate_limits import limited
from orchestrator.web.rate_limits import RequestKind
from orchestrator.web.rights import Visit
from orchestrator.web.team_forms import AppealForm, CorrectionForm, FileForm, ImageForm, WithdrawForm
from orchestrator.web.team_results import finding_labels, read_receipt, reports_of
from orchestrator.web.templating import render
from orchestrator.web.uploads import UploadRefused

DISQUALIFICATION = "disqualification"
"""The subject of an appeal that is about no finding."""
_OUTCOME = "outcome"


@limited(RequestKind.SUBMISSION)
def submit(visit: Visit) -> HttpResponseBase:
    """Submits a file. Records the arrival with its time; admission follows later."""
    request, contest = visit.request, visit.site.contest()
    posted = request.method == "POST"
    formats = [str(each) for each in contest.format.picture_formats()]
    form = FileForm(
        _task_names(visit), request.POST if posted else None, request.FILES if posted else None, pictures=bool(formats)
    )
    return _submit(visit, form, "teams/submit.html.j2", pictures=formats, commands=_commands(visit))


@limited(RequestKind.SUBMISSION)
def submit_image(visit: Visit) -> HttpResponseBase:
    """Submits an image by its digest. Records the arrival with its time; admission follows later."""
    contest = visit.site.contest()
    if contest.format.picture_formats():
        raise Http404
    form = ImageForm(_task_names(visit), contest.format.programs, visit.request.POST or None)
    return _submit(visit, form, "teams/submit_image.html.j2")


def _task_names(visit: Visit) -> list[str]:
    return [task.name for task in visit.site.contest().file.all_tasks]


def _submit(visit: Visit, form: FileForm | ImageForm, template: str, **more: object) -> HttpResponseBase:
    """Takes in what a valid form submits and redirects to the arrival, or returns the form's page."""
    problem = ""
    if form.is_valid():
        recorded: list[Arrival] = []
        problem = attempt(lambda: recorded.append(_record_arrival(visit, form)))
        if not problem:
            return redirect(visit.team_url("arrival", arrival=recorded[0].id))
    return render(
        visit,
        template,
        form=form,
        problem=problem,
        tries=list(submission_allowance.tries_left(visit.season, visit.site.contest(), visit.team, visit.site.clock())),
        window=visit.site.submission_window(visit.season),
        status=form_status(form, problem),
        **more,
    )


def _record_arrival(visit: Visit, form: FileForm | ImageForm) -> Arrival:
    """Records an arrival. Raises SparringError; then nothing is kept."""
    said, now = form.cleaned_data, last_byte_time(visit.request, visit.site.clock)
    request = SubmissionRequest(visit.team, said["task"], name=said.get("name", ""))
    path: Path | None = None
    if isinstance(form, ImageForm):
        request = replace(request, side=Side(said["side"]), image=said["image"])
    else:
        upload: TemporaryUploadedFile = said["file"]
        request, path = replace(request, file_name=upload.name or ""), Path(upload.temporary_file_path())
        try:
            uploads.require_space(visit.site.clock(), 0)  # the file itself is on that disk already
        except UploadRefused as refused:
            raise Rejected(f"submission {request.file_name}", [refused.problem]) from refused
    with visit.site.administer_without_reports(visit.actor.person) as admin:
        arrival = arrivals.record_arrival(admin, request, path, now=now)
    if arrival.id in visit.season.arrivals:
        messages.info(
            visit.request,
            "The same submission arrived before and was not accepted again. This page shows what became of it.",
        )
    return arrival


def _commands(visit: Visit) -> tuple[str, str]:
    """Returns the commands that submit a file of any size: sign in, and submit."""
    address, tasks = web_settings().address, _task_names(visit)
    options = f"--team {shlex.quote(visit.team)} --task {tasks[0] if len(tasks) == 1 else 'TASK'}"
    return f"sparring login {address}", f"sparring submit --to {address} {options} FILE"


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step of an admission with the lines of its log. `state` is "passed", "failed", "warned" or "going on"."""

    name: str
    state: str
    detail: str = ""
    problem: str = ""
    remedy: str = ""
    lines: tuple[str, ...] = ()


def shown_steps(steps: Iterable[AdmissionStep], *, received: bool) -> list[ShownStep]:
    """Returns the steps as the page shows them: with each step its log lines, and without the outcome.

    A failed step of a submission that was received nevertheless is shown as a warning (A9, A14).
    """
    shown: list[ShownStep] = []
    for step in steps:
        if step.step == _OUTCOME:
            continue
        state = {None: "going on", True: "passed", False: "warned" if received else "failed"}[step.passed]
        before = shown[-1] if shown and (shown[-1].name, shown[-1].state) == (step.step, "going on") else None
        if step.passed is None:
            lines = (*(before.lines if before else ()), step.detail)
            shown[len(shown) - bool(before) :] = [ShownStep(step.step, state, lines=lines)]
        else:
            found = ShownStep(step.step, state, step.detail, step.problem, step.remedy, before.lines if before else ())
            shown[len(shown) - bool(before) :] = [found]
    return shown


def arrival(visit: Visit, arrival: str) -> HttpResponseBase:
    """Shows an arrival, each step of its admission, and the outcome."""
    return render(visit, "teams/arrival.html.j2", **_arrival_values(visit, arrival))


def arrival_fragment(visit: Visit, arrival: str) -> HttpResponseBase:
    """Returns the part of the arrival's page that changes during admission."""
    values = _arrival_values(visit, arrival)
    return fragment(visit, "teams/admission.html.j2", ended=bool(_own_arrival(visit, arrival).outcome), **values)


def _own_arrival(visit: Visit, arrival: str) -> Arrival:
    found = visit.season.arrivals.get(arrival)
    if found is None or found.team != visit.team:
        raise Http404
    return found


def _arrival_values(visit: Visit, arrival: str) -> dict[str, Any]:
    found = _own_arrival(visit, arrival)
    waiting = [each.id for each in visit.season.admission_queue()]
    names = {person.id: person.name for person in visit.season.teams[visit.team]}
    return {
        "arrival": found,
        "entry": visit.season.entries.get(found.submission),
        "submitted_by": names.get(found.actor, found.actor),
        "before": waiting.index(arrival) if arrival in waiting else 0,
        "steps": shown_steps(
            arrivals.read_steps(visit.site.folder.path, arrival), received=found.outcome == "received"
        ),
    }


def submission(visit: Visit, submission: str) -> HttpResponseBase:
    """Shows a received submission: its ledger entries, the findings against it, and what its team can do."""
    entry = _own_entry(visit, submission)
    page = reports_of(visit.site).pages[visit.team]
    return render(
        visit,
        "teams/submission.html.j2",
        entry=entry,
        state=_state_in_words(visit, entry),
        key=visit.site.key_fingerprint,
        history=next(one for one in page.submissions if one.entry.id == entry.id),
        participations=[one for one in page.participations if one.part.id == entry.id],
        findings=_findings(visit, entry),
        labels=finding_labels(visit.site),
        appeals=[each for each in visit.season.appeals.values() if each.submission == entry.id],
        may_appeal=bool(_appealable(visit, entry)),
        withdrawal_obstacle=_withdrawal_obstacle(visit, entry),
    )


def _own_entry(visit: Visit, submission: str) -> Entry:
    entry = visit.season.entries.get(submission)
    if entry is None or entry.team != visit.team:
        raise Http404
    return entry


def _findings(visit: Visit, entry: Entry) -> tuple[TeamFinding, ...]:
    return reports_of(visit.site).findings.get(entry.id, ())


def _subjects(visit: Visit, entry: Entry) -> list[tuple[str, str]]:
    """Returns the possible subjects of an appeal, each with its words."""
    found = [(DISQUALIFICATION, f"its disqualification: {entry.disqualified}")] if entry.disqualified else []
    return found + [(each.label, f"{each.label}: {each.part.kind.value}") for each in _findings(visit, entry)]


def _state_in_words(visit: Visit, entry: Entry) -> str:
    if not entry.is_active:
        return "disqualified" if entry.disqualified else "withdrawn"
    if (contest := visit.site.unrestricted()) is not None:
        return contest.read(lambda state: unrestricted_views.defence_state(state, entry.id))
    return "takes part in rounds"


def _appealable(visit: Visit, entry: Entry) -> list[tuple[str, str]]:
    """Returns the subjects against which the team has not appealed yet."""
    labels = finding_labels(visit.site)
    appealed = {
        labels.get(each.finding, DISQUALIFICATION)
        for each in visit.season.appeals.values()
        if each.submission == entry.id
    }
    return [each for each in _subjects(visit, entry) if each[0] not in appealed]


def _withdrawal_obstacle(visit: Visit, entry: Entry) -> str:
    """Returns why a submission cannot be withdrawn, "" if it can."""
    if not entry.is_active:
        return f"it is {_state_in_words(visit, entry)}"
    obstacle: str = visit.site.contest().format.withdrawal_obstacle(visit.season, entry.id)
    return obstacle


def _render_act(
    visit: Visit, entry: Entry, act: str, form: forms.BaseForm, problem: str, obstacle: str = ""
) -> HttpResponseBase:
    """Returns the page of an act on a submission. `obstacle` is why it is not possible; the form is not shown then."""
    return render(
        visit,
        "teams/act.html.j2",
        entry=entry,
        act=act,
        form=form,
        problem=problem,
        obstacle=obstacle,
        status=form_status(form, problem),
    )


@limited(RequestKind.ACT)
def withdraw(visit: Visit, submission: str) -> HttpResponseBase:
    """Withdraws a submission, with a reason. The page says before that it cannot be undone."""
    entry, form, problem = _own_entry(visit, submission), WithdrawForm(visit.request.POST or None), ""
    if form.is_valid():
        problem = attempt_change(visit, lambda admin: admin.withdraw(entry.id, form.cleaned_data["reason"]))
        if not problem:
            messages.success(visit.request, f"{entry.id} is withdrawn.")
            return redirect(visit.team_url("submission", submission=entry.id))
    return _render_act(visit, entry, "withdraw", form, problem, _withdrawal_obstacle(visit, entry))


@limited(RequestKind.ACT)
def correct(visit: Visit, submission: str) -> HttpResponseBase:
    """Corrects a submission's licence and source (A6)."""
    entry, problem, warnings = _own_entry(visit, submission), "", list[str]()
    form = CorrectionForm.of_entry(entry, visit.request.POST or None)
    if form.is_valid():
        reason, changed = form.cleaned_data["reason"], form.changed_words()
        problem = attempt_change(
            visit, lambda admin: warnings.extend(admin.correct_release(entry.id, reason, **changed))
        )
        if not problem:
            messages.success(visit.request, "The record has it now. What it said before stays there too.")
            for warning in warnings:
                messages.warning(visit.request, warning)
            return redirect(visit.team_url("submission", submission=entry.id))
    return _render_act(visit, entry, "correct", form, problem)


@limited(RequestKind.APPEAL)
def file_appeal(visit: Visit, submission: str) -> HttpResponseBase:
    """Appeals against a finding against a submission, or against its disqualification."""
    entry, problem = _own_entry(visit, submission), ""
    subjects = _appealable(visit, entry)
    form = AppealForm(subjects or _subjects(visit, entry), visit.request.POST or None)
    if form.is_valid():
        ids = {each.label: each.id for each in _findings(visit, entry)}
        text, about = form.cleaned_data["text"], ids.get(form.cleaned_data["about"], "")
        problem = attempt_change(
            visit, lambda admin: appeals.file_appeal(admin, visit.team, entry.id, text, finding=about)
        )
        if not problem:
            messages.success(visit.request, "Your appeal is filed. You will find its decision on this page.")
            return redirect(visit.team_url("submission", submission=entry.id))
    nothing = "" if subjects else "there is nothing, or nothing more, against which the team can appeal"
    return _render_act(visit, entry, "appeal", form, problem, nothing)


def receipt(visit: Visit, submission: str) -> HttpResponseBase:
    """Returns the receipt as a file, byte for byte as it was signed."""
    entry = _own_entry(visit, submission)
    return attachment(f"{entry.id}.json", read_receipt(visit.site, visit.actor.person, entry.id))


def finding(visit: Visit, submission: str, finding: str) -> HttpResponseBase:
    """Returns the public part of a finding as a file."""
    found = next((each for each in _findings(visit, _own_entry(visit, submission)) if each.label == finding), None)
    if found is None:
        raise Http404
    document = {"round": found.round, "task": found.task, **found.part.model_dump(mode="json")}
    return attachment(f"{found.label}.json", json.dumps(document, indent=2).encode() + b"\n")
