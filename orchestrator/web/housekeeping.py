"""Removes expired rows and files when the service starts and once a day, so that its tables and disk do not fill up."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management import call_command
from django.db import Error, connection

from orchestrator.logs import get_logger
from orchestrator.web import invitations, rate_limits, uploads
from orchestrator.web.contest_site import ContestSite
from orchestrator.web.periodic import repeated

PERIOD_SECONDS = 86_400.0
"""The time between two sweeps. No check depends on them: an expired row no longer counts, even before it is removed."""
_log = get_logger()


def sweep(site: ContestSite) -> None:
    """Removes expired uploads, invitations and sessions, and the buckets of rate limits that are full again.

    A fault is logged and left to the next sweep, because the service can answer without it.
    """
    now = site.clock()
    try:
        rate_limits.sweep(now)
        invitations.sweep(now)
        uploads.sweep(now)
        call_command("clearsessions", verbosity=0)
    except (Error, OSError) as error:
        _log.warning("sweep_failed", reason=str(error))


@contextmanager
def swept_daily(site: ContestSite) -> Iterator[None]:
    """Sweeps once before the block begins, and every day while it lasts."""
    sweep(site)
    connection.close()
    with repeated("housekeeping", lambda: sweep(site), PERIOD_SECONDS):
        yield
