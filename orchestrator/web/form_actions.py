"""Acts that a form requests, done once in the name of the sender, and the answers to the form."""

import secrets
from collections.abc import Callable

from django import forms
from django.contrib import messages
from django.core.cache import cache
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.errors import InfrastructureFault, Rejected, SparringError
from orchestrator.web.contest_site import current_site
from orchestrator.web.rights import Visit
from orchestrator.web.site_messages import for_site, site_problems

_REMEMBERED_SECONDS = 24 * 3600
_TOKEN_BYTES = 16


class OnceForm(forms.Form):
    """A form that takes effect once: a second click, or sending the page again, does nothing more."""

    once = forms.CharField(widget=forms.HiddenInput, max_length=64)

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # passed on to Django's form
        self.fields["once"].initial = secrets.token_urlsafe(_TOKEN_BYTES)


def attempt(act: Callable[[], object]) -> str:
    """Calls `act`. Returns why it was refused, one reason a line, or "" if it succeeded.

    Raises InfrastructureFault if the fault is ours: its message is for the organizers' log and not for a page.
    """
    try:
        act()
    except InfrastructureFault:
        raise
    except SparringError as error:
        return problem_text(error)
    return ""


def attempt_change(visit: Visit, act: Callable[[ContestAdmin], object]) -> str:
    """Calls `act` with the contest, opened for changes in the visitor's name. Returns and raises like `attempt`."""

    def change() -> None:
        with visit.site.administer(visit.actor.person) as admin:
            act(admin)

    return attempt(change)


def problem_text(error: SparringError) -> str:
    """Returns the problems of an error, one a line, for a page."""
    folder = str(current_site().folder.path)
    if not isinstance(error, Rejected):
        return for_site(str(error), folder)
    return "\n".join(map(str, site_problems(error, folder)))


def act_once(visit: Visit, form: OnceForm, act: Callable[[ContestAdmin], object]) -> tuple[str, bool]:
    """Calls `act` for a valid form in the visitor's name, unless the same form was sent before.

    Returns why the act was refused ("" if it was not), and whether it was done now. A form whose act was refused may
    be sent again.

    Raises:
        InfrastructureFault: the fault is ours; the form may be sent again.
    """
    key = f"once-{visit.actor.person}-{form.cleaned_data['once']}"
    if not cache.add(key, 1, _REMEMBERED_SECONDS):
        return "", False
    try:
        with visit.site.administer(visit.actor.person) as admin:
            act(admin)
    except SparringError as error:
        cache.delete(key)
        if isinstance(error, InfrastructureFault):
            raise
        return problem_text(error), False
    return "", True


def form_status(form: forms.BaseForm, problem: str) -> int:
    """Returns the HTTP status of a form's page: 409 if the act was refused, 400 if the form is invalid, else 200."""
    if problem:
        return 409
    return 400 if form.errors else 200


def see_other(page: str) -> HttpResponse:
    """Returns a redirect to a page that the browser requests with GET."""
    response = redirect(page)
    response.status_code = 303
    return response


def redirect_after(visit: Visit, page: str, *, done: bool, text: str) -> HttpResponseBase:
    """Returns a redirect to a page with a message: what was done, or that the same form was sent before."""
    if done:
        messages.success(visit.request, text)
    else:
        messages.info(visit.request, "This form was sent already; what it asked for was done once.")
    return redirect(page)
