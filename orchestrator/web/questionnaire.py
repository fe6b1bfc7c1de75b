"""The page on which a rater judges one picture in steps.

It has no address of its own: a view that checks who may judge which picture calls `ask_about`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.http import HttpResponse, HttpResponseBase

from orchestrator.domain.multi_step_form import BOX_EDGES, MultiStepForm
from orchestrator.web.rights import Visit
from orchestrator.web.templating import render

LARGEST_SIDE = 480
"""The largest side, in CSS pixels, to which a whole factor enlarges a picture. Narrow windows show it smaller."""
_UNPROCESSABLE = 422


@dataclass(frozen=True, slots=True)
class AskedPicture:
    """A picture that one rater is asked to judge.

    Attributes:
        form: the questions.
        picture: the address of the picture.
        action: the address of the page, to which the form is sent.
        take_answers: records the complete answers, as a JSON document, and returns the page that follows.
        take_report: records a report that nobody should be shown the picture, and returns the page that follows.
        hidden: the values of the form's hidden fields, such as the stamp of `orchestrator.web.rating`.
        note: a note for the rater about this picture, or "".
    """

    form: MultiStepForm
    picture: str
    action: str
    take_answers: Callable[[Mapping[str, object]], HttpResponseBase]
    take_report: Callable[[], HttpResponseBase]
    hidden: Mapping[str, str]
    note: str = ""


def ask_about(visit: Visit, asked: AskedPicture) -> HttpResponseBase:
    """Returns the page of the next step; after the last answer or a report, the page that `asked` returns."""
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
    """Returns a page that browsers do not keep: the back button must not show a picture that was already judged."""
    response = render(visit, template, status=status, **values)
    response["Cache-Control"] = "private, no-store"
    return response
