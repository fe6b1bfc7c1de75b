"""The page on which one picture is judged in steps: given a picture, its questions, and what takes the answers.

It has no address of its own. A view that knows who may judge which picture calls `ask_about`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.http import HttpResponse, HttpResponseBase

from orchestrator.domain.stepped_form import BOX_EDGES, SteppedForm
from orchestrator.web.rights import Visit
from orchestrator.web.templating import render

LARGEST_SIDE = 480
"""CSS pixels: up to so many a picture is enlarged, by a whole number. A narrow window shows it smaller."""
_UNPROCESSABLE = 422


@dataclass(frozen=True, slots=True)
class AskedPicture:
    """A picture that one rater is asked about.

    Attributes:
        form: what is asked.
        picture: the address of the picture.
        action: the address of the page, to which it sends answers.
        take_answers: takes the answers, as JSON has them, when all are there, and returns the page that follows.
        take_report: takes a report that the picture should be shown to nobody, and returns the page that follows.
        hidden: fields that the page sends along, such as the stamp of `orchestrator.web.rating`.
        note: what the rater has to know of this picture, "" for nothing.
    """

    form: SteppedForm
    picture: str
    action: str
    take_answers: Callable[[Mapping[str, object]], HttpResponseBase]
    take_report: Callable[[], HttpResponseBase]
    hidden: Mapping[str, str]
    note: str = ""


def ask_about(visit: Visit, asked: AskedPicture) -> HttpResponseBase:
    """Returns the step that is next; or, when the last is answered or the picture is reported, what follows then."""
    if visit.request.method != "POST":
        return _step_page(visit, asked, {})
    sent = {name: value for name, value in visit.request.POST.items() if isinstance(value, str)}
    match sent.pop("act", ""):
        case "report":
            return _page(visit, "rate/report.html.j2", asked=asked)
        case "confirm-report":
            return asked.take_report()
        case "change":
            sent.pop("step", "")
    return _step_page(visit, asked, sent)


def _step_page(visit: Visit, asked: AskedPicture, sent: Mapping[str, str]) -> HttpResponseBase:
    step = asked.form.next_step(sent)
    if step is None:
        return asked.take_answers(asked.form.document(sent))
    return _page(
        visit,
        "rate/questionnaire.html.j2",
        status=_UNPROCESSABLE if step.problems else 200,
        asked=asked,
        step=step,
        edges=BOX_EDGES,
        scale=max(1, LARGEST_SIDE // max(asked.form.height, asked.form.width)),
    )


def _page(visit: Visit, template: str, status: int = 200, **values: object) -> HttpResponse:
    """Returns a page that no browser keeps: a way back must not show a picture that was answered."""
    response = render(visit, template, status=status, **values)
    response["Cache-Control"] = "private, no-store"
    return response
