"""The raters' pages, one item a page; and the organizers' page that plans the grading and shows its progress.

No page of a rater names a submission, a team or another rater's answer: a random token identifies an item, and the
pages of all items of a kind have the same form.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from orchestrator.application.grading import human_grading, raters
from orchestrator.application.grading.rating_desk import RaterView
from orchestrator.domain import recusal
from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.human_grading import GivenAnswer, GradingProgress, RatedItem, RaterProgress
from orchestrator.errors import Rejected, UsageError
from orchestrator.web import rating
from orchestrator.web.file_responses import png
from orchestrator.web.form_actions import attempt, form_status, problem_text, see_other
from orchestrator.web.pages.form_rate_limits import limited
from orchestrator.web.rate_limits import RequestKind
from orchestrator.web.rights import Visit
from orchestrator.web.row_forms import Row, RowForm, row_links
from orchestrator.web.templating import render

PICTURE_SECONDS = 600
"""How long a browser keeps the picture of an unanswered item, which the previous page already loads."""
_REFUSED = 409


def start(visit: Visit) -> HttpResponseBase:
    """Shows the rater's task, instructions and progress. In an unrestricted contest, redirects to its own page."""
    if visit.site.unrestricted() is not None:
        return redirect("judge")
    view, problem = _view(visit)
    minutes = rating.minutes_left(view.own) if view else 0
    return render(visit, "rate/start.html.j2", rater=view, problem=problem, minutes=minutes)


@limited(RequestKind.RATING)
def next_item(visit: Visit) -> HttpResponseBase:
    """Shows the rater's current item; takes its answer and redirects to the next one."""
    if visit.request.method != "POST":
        return _item_page(visit)
    try:
        sent = rating.read_form(visit.request.POST, visit.site.clock())
        visit.site.rating_desk().answer(visit.actor.person, sent.given, corrects=sent.corrects)
    except rating.StaleForm:
        return _item_page(visit, "This page was open too long, or the service was restarted. Answer here instead.")
    except (Rejected, UsageError) as error:
        return _item_page(visit, problem_text(error), sent.given)
    return see_other("rate-next")


@limited(RequestKind.RATING)
def last_item(visit: Visit) -> HttpResponseBase:
    """Shows the item that the rater answered last, as long as that answer may be replaced."""
    view, _ = _view(visit)
    if view is None or view.own.last is None or view.is_over or not view.own.may_correct(visit.site.clock()):
        messages.warning(visit.request, "There is no answer that can still be changed: only the last, for 60 seconds.")
        return see_other("rate-next")
    return _render_item(visit, view, view.own.last, corrects=True)


def picture(visit: Visit, token: str, number: int) -> HttpResponseBase:
    """Returns a picture of one of the rater's own items."""
    try:
        desk, person = visit.site.rating_desk(), visit.actor.person
    except UsageError as error:  # nobody grades in this contest
        raise Http404 from error
    found, data = desk.item(person, token), desk.picture(person, token, number)
    if found is None or data is None or recusal.rater_problems(visit.season, person):
        raise Http404
    _, answered = found
    return png(data, "private, no-store" if answered else f"private, max-age={PICTURE_SECONDS}")


def _view(visit: Visit) -> tuple[RaterView | None, str]:
    """Returns the rater's view, or None and why this person may not rate."""
    if problems := recusal.rater_problems(visit.season, visit.actor.person):
        return None, "\n".join(str(each) for each in problems)
    try:
        return visit.site.rating_desk().view(visit.actor.person), ""
    except UsageError:
        return None, ""  # people do not grade in this contest, so nothing waits


def _item_page(visit: Visit, refused: str = "", given: GivenAnswer | None = None) -> HttpResponseBase:
    """Returns the page of the rater's current item, with the reason why an answer was refused.

    What was chosen stays chosen if the refused answer is about this item.
    """
    view, problem = _view(visit)
    status = _REFUSED if refused else 200
    if view is None:
        return render(visit, "rate/start.html.j2", rater=None, problem=refused or problem, minutes=0, status=status)
    if view.own.next is None:
        return render(visit, "rate/done.html.j2", rater=view, problem=refused, status=status)
    chosen = given.choices if given is not None and given.token == view.own.next.token else {}
    return _render_item(visit, view, view.own.next, refused=refused, chosen=chosen)


def _render_item(
    visit: Visit,
    view: RaterView,
    item: RatedItem,
    *,
    corrects: bool = False,
    refused: str = "",
    chosen: Mapping[str, str] = MappingProxyType({}),
) -> HttpResponse:
    own, now = view.own, visit.site.clock()
    response = render(
        visit,
        "rate/item.html.j2",
        status=_REFUSED if refused else 200,
        item=item,
        own=own,
        following=own.next if corrects else own.following,
        corrects=corrects,
        refused=refused,
        chosen=chosen,
        may_correct=not corrects and own.may_correct(now),
        stamp=rating.stamp(item, now),
        minutes=rating.minutes_left(own),
        pause=rating.at_work(own.times, now) >= rating.PAUSE_AFTER,
    )
    response["Cache-Control"] = "private, no-store"
    return response


class MoreForm(RowForm):
    """Takes the pictures of a task for which teams appealed."""

    row_fields = ("task",)
    task = forms.CharField(widget=forms.HiddenInput)
    appeals = forms.CharField(
        required=False,
        label="Appeals",
        widget=forms.Textarea,
        help_text="Pictures of which teams appeal, a submission a line: reds=3,17. Leave it empty to ask only for "
        "what is missing.",
    )

    def clean_appeals(self) -> dict[str, list[int]]:
        """Returns the numbers of pictures by submission."""
        found: dict[str, list[int]] = {}
        for line in filter(None, (line.strip() for line in self.cleaned_data["appeals"].splitlines())):
            submission, mark, numbers = line.partition("=")
            parts = numbers.split(",")
            if not (submission and mark) or not all(part.strip().isdecimal() and part.isascii() for part in parts):
                raise forms.ValidationError(f"{line[:80]!r}: write SUBMISSION=3,17, with numbers of pictures from 0")
            found[submission.strip()] = [int(part) for part in parts]
        return found


@dataclass(frozen=True, slots=True)
class RaterRow:
    """A rater as organizers see it. Whether the rater's answers count is shown only after all are given."""

    name: str
    progress: RaterProgress

    @property
    def standing(self) -> str:
        """The rater's state in words."""
        if self.progress.answered < self.progress.asked:
            return "at work" if self.progress.answered else "not begun"
        why = f": {self.progress.reason}" if self.progress.reason else ""
        return f"{self.progress.status}{why}"


@dataclass(frozen=True, slots=True)
class TaskRow:
    """The grading of one task as organizers see it; `progress` is None if nothing was planned."""

    task: str
    progress: GradingProgress | None
    raters: tuple[RaterRow, ...] = ()


def grading(visit: Visit) -> HttpResponseBase:
    """Shows the raters and their progress; plans a grading, or counts the answers."""
    problem = ""
    if visit.request.method == "POST":
        problem = attempt(lambda: _act(visit))
        if not problem:
            return see_other("grading")
    people = raters.list_raters(visit.season, visit.site.folder.key())
    grades = visit.site.contest().format.human_grading() is not None
    tasks = _task_rows(visit, {each.id: each.name for each in people}) if grades else []
    return render(
        visit,
        "organize/grading.html.j2",
        status=_REFUSED if problem else 200,
        problem=problem,
        grades=grades,
        people=people,
        eligible=sum(not each.problems for each in people),
        tasks=tasks,
        more={name: address for address, name in row_links(reverse("grading-more"), _planned_tasks(tasks))},
    )


def more_answers(visit: Visit) -> HttpResponseBase:
    """Asks raters for the missing answers about a task and for answers about pictures for which teams appealed."""
    problem = ""
    tasks = _task_rows(visit, {}) if visit.site.contest().format.human_grading() is not None else []
    form = MoreForm.of_request(visit.request, _planned_tasks(tasks))
    if form.is_valid():
        problem = attempt(lambda: _plan_more(visit, form.cleaned_data["appeals"]))
        if not problem:
            return see_other("grading")
    if not form.is_bound and not form.about:
        return redirect("grading")
    return render(
        visit,
        "organize/grading_more.html.j2",
        form=form,
        problem=problem,
        status=form_status(form, problem),
    )


def _planned_tasks(tasks: Iterable[TaskRow]) -> list[Row]:
    return [({"task": each.task}, each.task) for each in tasks if each.progress is not None]


def _known_task(visit: Visit) -> str:
    """Returns the task that a request names. Raises UsageError if the contest has no such task."""
    task = visit.request.POST.get("task", "")
    if task not in [section.name for section in visit.site.contest().file.all_tasks]:
        raise UsageError("there is no such task; load the page again")
    return task


def _act(visit: Visit) -> None:
    """Does the act that an organizer requested, and tells so. Raises SparringError."""
    task = _known_task(visit)
    with visit.site.administer(visit.actor.person) as admin:
        if visit.request.POST.get("act") == "count":
            human_grading.count_answers(admin)
            messages.success(visit.request, "The board counts every answer that was given so far.")
        else:
            chosen = raters.eligible_raters(admin.season, admin.folder.key())
            _tell_plan(visit, human_grading.plan_grading(admin, chosen, task))


def _plan_more(visit: Visit, appeals: Mapping[str, Sequence[int]]) -> None:
    task = _known_task(visit)
    with visit.site.administer(visit.actor.person) as admin:
        chosen = raters.eligible_raters(admin.season, admin.folder.key())
        _tell_plan(visit, human_grading.plan_more(admin, appeals, chosen, task))


def _tell_plan(visit: Visit, event: FormatEvent) -> None:
    plan = event.summary()
    text = f"Planned: {plan['pictures']} pictures of {plan['submissions']} submissions, {plan['raters']} raters."
    messages.success(visit.request, text)


def _task_rows(visit: Visit, names: dict[str, str]) -> list[TaskRow]:
    rows = []
    for section in visit.site.contest().file.all_tasks:
        try:
            progress = human_grading.grading_progress(visit.site.contest(), visit.season, section.name)
        except Rejected:  # nothing was planned
            rows.append(TaskRow(section.name, None))
            continue
        own = tuple(RaterRow(names.get(each.rater, each.rater), each) for each in progress.raters)
        rows.append(TaskRow(section.name, progress, own))
    return rows
