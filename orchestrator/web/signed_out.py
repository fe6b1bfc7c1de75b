"""The answer to a request of somebody who is not signed in, to a page that needs an account."""

from urllib.parse import urlencode

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from orchestrator.web.typed_text import typed_in_form


def answer_signed_out(request: HttpRequest) -> HttpResponseBase:
    """Returns a redirect to the sign-in page, or 403 with the text of a sent form.

    The session of somebody who writes a long text may end meanwhile; a redirect would lose the text.
    """
    lost = typed_in_form(request)
    if not lost:
        return redirect_to_login(request.get_full_path())
    values = {
        "title": "You are signed out",
        "text": "Nothing was done. Copy what you typed, sign in, and send the form again.",
        "lost": lost,
        "link": (f"{reverse('account_request_login_code')}?{urlencode({'next': request.get_full_path()})}", "Sign in"),
    }
    return render(request, "error.html.j2", values, status=403, using="jinja2")
