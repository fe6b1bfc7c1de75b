"""The health check with which a load balancer or a cluster asks whether this process can answer."""

from django.db import Error
from django.http import HttpResponse

from orchestrator.logs import get_logger
from orchestrator.web.models import Account
from orchestrator.web.rights import Visit

_log = get_logger()


def health(visit: Visit) -> HttpResponse:
    """Returns 200 and "ok" if the contest's ledger and the service's own tables can be read, otherwise 503.

    As for every page, the ledger's new entries were read before this is called.
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
