"""The organizers' pages of submissions: the list, disqualification, and correction."""

from django.http import Http404, HttpResponseBase

from orchestrator.application.contests import ledger_in_words
from orchestrator.application.contests.ledger_in_words import ContestEntry
from orchestrator.domain.contest_events import SubmissionRefused
from orchestrator.domain.season import Entry
from orchestrator.web.form_actions import act_once, form_status, redirect_after
from orchestrator.web.organizer_forms import CorrectionForm, ReasonForm
from orchestrator.web.people import names_of
from orchestrator.web.rights import Visit
from orchestrator.web.templating import render

_REFUSALS_SHOWN = 200


def refusals(visit: Visit) -> list[ContestEntry]:
    """Returns the refusals of submissions, the latest first."""
    entries = ledger_in_words.read_contest_entries(visit.site.folder)
    return [entry for entry in reversed(entries) if isinstance(entry.event, SubmissionRefused)]


def submissions(visit: Visit) -> HttpResponseBase:
    """Shows every submission with its state, the arrivals that wait for admission, and the refusals with reasons."""
    return render(
        visit,
        "organize/submissions.html.j2",
        entries=sorted(visit.season.entries.values(), key=lambda entry: -entry.receipt_number),
        arrivals=list(visit.season.pending_arrivals.values()),
        refusals=refusals(visit)[:_REFUSALS_SHOWN],
        names=names_of(visit.season),
    )


def disqualify(visit: Visit, submission: str) -> HttpResponseBase:
    """Disqualifies a submission, with a reason."""
    entry = _entry(visit, submission)
    form, problem = ReasonForm(visit.request.POST or None), ""
    if form.is_valid():
        reason = form.cleaned_data["reason"]
        problem, done = act_once(visit, form, lambda admin: admin.disqualify(submission, reason))
        if not problem:
            return redirect_after(visit, "organize-submissions", done=done, text=f"{submission} is disqualified.")
    played = [(name, task) for name, task in visit.season.played_rounds if task == entry.task]
    return render(
        visit,
        "organize/disqualify.html.j2",
        entry=entry,
        form=form,
        problem=problem,
        played=played,
        status=form_status(form, problem),
    )


def correct(visit: Visit, submission: str) -> HttpResponseBase:
    """Corrects a submission's licence or source (A6)."""
    entry = _entry(visit, submission)
    form, problem = CorrectionForm.of_entry(entry, visit.request.POST or None), ""
    warnings: list[str] = []
    if form.is_valid():
        reason, changed = form.cleaned_data["reason"], form.changed_words()
        problem, done = act_once(
            visit, form, lambda admin: warnings.extend(admin.correct_release(submission, reason, **changed))
        )
        if not problem:
            return redirect_after(
                visit, "organize-submissions", done=done, text="; ".join([f"{submission} is corrected", *warnings])
            )
    return render(
        visit,
        "organize/correct.html.j2",
        entry=entry,
        form=form,
        problem=problem,
        status=form_status(form, problem),
    )


def _entry(visit: Visit, submission: str) -> Entry:
    entry = visit.season.entries.get(submission)
    if entry is None:
        raise Http404
    return entry
