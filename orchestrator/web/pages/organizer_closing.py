"""The pages that close submissions and open them again, each with its consequences."""

from django.http import HttpResponseBase

from orchestrator.application.contests import closing_preview, submission_closing
from orchestrator.application.contests.submission_window import submission_window
from orchestrator.web import contest_words, uploads
from orchestrator.web.form_actions import act_once, form_status, redirect_after
from orchestrator.web.organizer_forms import CloseForm, ReopenForm
from orchestrator.web.people import names_of
from orchestrator.web.rights import Visit
from orchestrator.web.templating import render


def close(visit: Visit) -> HttpResponseBase:
    """Shows the consequences of closing submissions now, and closes them. After a close, shows its time and author."""
    form, problem = CloseForm(visit.request.POST or None), ""
    if form.is_valid():
        reason = form.cleaned_data["reason"]
        problem, done = act_once(visit, form, lambda admin: submission_closing.close_submissions(admin, reason))
        if not problem:
            return redirect_after(visit, "organize-close", done=done, text="Submissions are closed.")
    contest, now = visit.site.contest(), visit.site.clock()
    under_way = uploads.uploads_under_way(now)
    window = visit.site.submission_window(visit.season)
    return render(
        visit,
        "organize/close.html.j2",
        form=form,
        problem=problem,
        preview=closing_preview.closing_preview(visit.site.folder, contest, visit.season, now, under_way),
        consequences=closing_preview.CONSEQUENCES,
        closes_itself=contest.format.closes_itself,
        window=window,
        dates=contest_words.dates(window),
        reopening_obstacle=submission_closing.reopening_obstacle(contest, visit.season),
        names=names_of(visit.season),
        status=form_status(form, problem),
    )


def reopen(visit: Visit) -> HttpResponseBase:
    """Shows what the dates of the contest file say without the organizers' close, and revokes the close."""
    form, problem = ReopenForm(visit.request.POST or None), ""
    if form.is_valid():
        reason = form.cleaned_data["reason"]
        problem, done = act_once(visit, form, lambda admin: submission_closing.reopen_submissions(admin, reason))
        if not problem:
            text = "The organizers no longer keep submissions closed; the dates of contest.yaml decide."
            return redirect_after(visit, "organize-close", done=done, text=text)
    contest = visit.site.contest()
    window = submission_window(contest.file, None, visit.site.clock())
    return render(
        visit,
        "organize/reopen.html.j2",
        form=form,
        problem=problem,
        obstacle="" if problem else submission_closing.reopening_obstacle(contest, visit.season),
        window=window,
        dates=contest_words.dates(window),
        status=form_status(form, problem),
    )
