"""The pages of a person's tokens: list, make, revoke, and approve a program's device login."""

from datetime import timedelta

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponseBase
from django.shortcuts import redirect

from orchestrator.errors import UsageError
from orchestrator.web import rate_limits, tokens
from orchestrator.web.account_forms import clean_name
from orchestrator.web.contest_site import web_settings
from orchestrator.web.form_actions import form_status
from orchestrator.web.models import TOKEN_NAME_LIMIT, ApiToken
from orchestrator.web.pages import errors
from orchestrator.web.rate_limits import RequestKind
from orchestrator.web.rights import Visit
from orchestrator.web.templating import render
from orchestrator.web.tokens import LONGEST_LIFETIME, Scope

SCOPE_TITLES = {Scope.SUBMIT: "submit, withdraw, correct, appeal, and read", Scope.READ: "read only"}


class TokenForm(forms.Form):
    """Makes a token."""

    name = forms.CharField(
        max_length=TOKEN_NAME_LIMIT,
        label="Name",
        help_text="A name by which you recognize it, such as the machine that it is for.",
    )
    scope = forms.ChoiceField(
        choices=[(scope.value, title) for scope, title in SCOPE_TITLES.items()], label="What it may do"
    )
    days = forms.IntegerField(
        min_value=1, max_value=LONGEST_LIFETIME.days, initial=90, label="Days until it expires", help_text="1 to 180."
    )

    def clean_name(self) -> str:
        """Returns the name."""
        return clean_name(self.cleaned_data["name"])


class CodeForm(forms.Form):
    """Takes the user code that a program shows."""

    code = forms.CharField(
        max_length=20,
        label="Code",
        help_text="Eight letters, as the program shows them.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "characters", "spellcheck": "false"}),
    )


def list_tokens(visit: Visit) -> HttpResponseBase:
    """Lists a person's tokens, and makes one, which is shown once."""
    form, made, problem, now = TokenForm(visit.request.POST or None), "", "", visit.site.clock()
    if form.is_valid():
        said = form.cleaned_data
        try:
            made = tokens.issue(
                visit.account, said["name"], Scope(said["scope"]), now=now, lifetime=timedelta(days=said["days"])
            )
            form = TokenForm()
        except UsageError as error:
            problem = str(error)
    rows = [
        (row, SCOPE_TITLES[Scope(row.scope)], row.expires <= now)
        for row in ApiToken.objects.filter(account=visit.account).order_by("-created", "-pk")
    ]
    answer = render(
        visit,
        "account/tokens.html.j2",
        form=form,
        made=made,
        problem=problem,
        rows=rows,
        address=web_settings().address,
        status=form_status(form, problem),
    )
    answer["Cache-Control"] = "no-store"
    return answer


def revoke_token(visit: Visit, token: str) -> HttpResponseBase:
    """Revokes a token."""
    found = ApiToken.objects.filter(account=visit.account, public_id=token)
    if visit.request.method != "POST" or not found.exists():
        raise Http404
    found.delete()
    messages.success(visit.request, "This token is revoked. A program that used it needs another one.")
    return redirect("tokens")


def device(visit: Visit) -> HttpResponseBase:
    """Approves or denies a device login: takes the code, shows the program and its scope, and takes the answer."""
    now, posted = visit.site.clock(), visit.request.POST
    form = CodeForm(posted or None)
    if not form.is_valid():
        return render(visit, "account/device.html.j2", form=form)
    if seconds := rate_limits.wait_seconds(RequestKind.DEVICE_CODE, visit.actor.person, now):
        return errors.too_many(visit.request, seconds)
    waiting = tokens.find_waiting(form.cleaned_data["code"], now)
    if waiting is None:
        form.add_error("code", "No program waits with this code. Codes hold for 10 minutes: start the login again.")
        return render(visit, "account/device.html.j2", form=form)
    if "answer" not in posted:
        title = SCOPE_TITLES[Scope(waiting.scope)]
        days = tokens.DEVICE_TOKEN_LIFETIME.days
        return render(visit, "account/device.html.j2", waiting=waiting, scope=title, days=days)
    approved = posted["answer"] == "approve"
    if not tokens.answer(waiting, visit.account, now, approved=approved):
        messages.error(visit.request, "The program no longer waits: start the login again.")
    elif approved:
        messages.success(visit.request, f"{waiting.name} is let in. It goes on by itself in a few seconds.")
    else:
        messages.success(visit.request, f"{waiting.name} is not let in.")
    return redirect("tokens")
