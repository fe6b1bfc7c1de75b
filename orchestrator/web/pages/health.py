"""Whether this process can answer: what a load balancer or a cluster asks before it sends people here."""

import structlog
from django.db import Error
from django.http import HttpResponse

from orchestrator.web.models import Account
from orchestrator.web.rights import Visit

_log = structlog.get_logger()


def health(visit: Visit) -> HttpResponse:
    """200 and "ok" where the contest's ledger and the service's own tables answer, else 503.

    Of the ledger, what is new since the last request was read before this is called, as for every page.
    """
    del visit
    try:
        Account.objects.exists()
    except Error as error:
        _log.error("accounts_unavailable", problem=str(error))
        return _plain("the accounts' database does not answer", 503)
    return _plain("ok", 200)


def _plain(text: str, status: int) -> HttpResponse:
    return HttpResponse(f"{text}\n", status=status, content_type="text/plain; charset=utf-8", headers=_HEADERS)


_HEADERS = {"Cache-Control": "no-store"}
