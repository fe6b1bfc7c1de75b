"""The security log: who signed in and out, wrong codes, and refused requests.

A line names a person by the id in ledgers and a page by its URL pattern, because an address may hold a secret.
"""

import logging
from typing import Any

from allauth.account import signals as account_signals
from allauth.account.adapter import get_adapter
from django.contrib.auth import signals
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import HttpRequest

from orchestrator.logs import get_logger

_log = get_logger()
_DOUBLED = ("django.request", "django.security.csrf")
"""The loggers with which Django logs refused requests, with their whole address. Only their errors are kept."""
_ENDED = "sparring_session_ended"


def connect() -> None:
    """Connects the signals of Django and allauth to this log. Call it once in a process."""
    for name in _DOUBLED:
        logging.getLogger(name).setLevel(logging.ERROR)
    signals.user_logged_in.connect(_signed_in, dispatch_uid="sparring")
    signals.user_logged_out.connect(_signed_out, dispatch_uid="sparring")
    account_signals.user_signed_up.connect(_signed_up, dispatch_uid="sparring")
    account_signals.login_code_rejected.connect(_wrong_code, dispatch_uid="sparring")
    account_signals.email_verification_code_rejected.connect(_wrong_code, dispatch_uid="sparring")


def page_of(request: HttpRequest) -> str:
    """Returns the URL pattern of a request; empty if its address matches none."""
    return request.resolver_match.route if request.resolver_match else ""


def refused(request: HttpRequest, status: int, person: str = "") -> None:
    """Logs a refused request; `person` is the sender's id if the request object has no user."""
    user: Any = getattr(request, "user", None)
    _log.warning(
        "request_refused",
        status=status,
        method=request.method,
        page=page_of(request),
        person=getattr(user, "person", person),
        client=_client_of(request),
    )


def ended_session(request: HttpRequest) -> bool:
    """Returns whether this request signed its user out."""
    return hasattr(request, _ENDED)


def _client_of(request: HttpRequest) -> str:
    """Returns the address that a request comes from, as trusted proxies say; empty if it is unknown."""
    try:
        return str(get_adapter().get_client_ip(request))
    except (ImproperlyConfigured, PermissionDenied):
        return ""


def _signed_in(request: HttpRequest, user: Any, **_more: object) -> None:
    _log.info("signed_in", person=user.person, client=_client_of(request))


def _signed_out(request: HttpRequest, user: Any, **_more: object) -> None:
    if user is not None:
        setattr(request, _ENDED, True)
        _log.info("signed_out", person=user.person, client=_client_of(request))


def _signed_up(request: HttpRequest, user: Any, **_more: object) -> None:
    _log.info("signed_up", person=user.person, client=_client_of(request))


def _wrong_code(request: HttpRequest, user: Any, **more: object) -> None:
    last = bool(more.get("last_attempt"))
    _log.warning("wrong_code", person=getattr(user, "person", ""), last_try=last, client=_client_of(request))
