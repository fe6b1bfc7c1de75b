"""Rate limits: token buckets in the service's own database, which all its processes share.

A bucket holds at most `burst` requests and fills evenly in `seconds`. Each request takes one. If none is left, the
answer says after how many seconds there will be one.
"""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256

from django.db import transaction

from orchestrator.web.models import RequestBudget


class RequestKind(StrEnum):
    """The kinds of requests, each of which has its own limit."""

    READ = "read"
    UPLOAD = "upload"
    UPLOAD_PART = "upload part"
    SUBMISSION = "submission"
    ACT = "act"
    APPEAL = "appeal"
    RATING = "rating"
    DEVICE = "device"
    DEVICE_POLL = "device poll"
    DEVICE_CODE = "device code"
    UNKNOWN_TOKEN = "unknown token"  # noqa: S105  a kind of request


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `burst` requests at once, and as many again in `seconds`; docs/web.md says `why`."""

    burst: int
    seconds: int
    why: str


LIMITS = {
    RequestKind.READ: Limit(600, 60, "Ten a second are more than any page or watching script needs."),
    RequestKind.UPLOAD: Limit(30, 3600, "A team starts a few files a day; each holds space on the disk."),
    RequestKind.UPLOAD_PART: Limit(1200, 60, "Parts of 8 MiB at 160 MiB/s; more is no network's speed."),
    RequestKind.SUBMISSION: Limit(30, 3600, "Each starts an admission, which may build and play for minutes."),
    RequestKind.ACT: Limit(60, 3600, "Teams, invitations, withdrawals and corrections stay in the record."),
    RequestKind.APPEAL: Limit(10, 86_400, "People read each of them."),
    RequestKind.RATING: Limit(120, 60, "Nobody looks at two pictures a second."),
    RequestKind.DEVICE: Limit(10, 600, "A login holds a code out of a small alphabet until it expires."),
    RequestKind.DEVICE_POLL: Limit(
        300, 600, "A program asks every 5 s for 10 minutes, perhaps two behind one address."
    ),
    RequestKind.DEVICE_CODE: Limit(10, 600, "So that nobody finds another's code by typing codes."),
    RequestKind.UNKNOWN_TOKEN: Limit(30, 600, "So that a script with a wrong token asks no database all day."),
}
_KEPT = timedelta(days=2)
"""After this time every bucket is full again and need not be kept."""


def wait_seconds(kind: RequestKind, who: str, now: datetime) -> int:
    """Takes one request out of a bucket and returns 0; if none is left, returns after how many seconds to try again.

    Args:
        kind: the kind of request.
        who: the bucket's owner: a person, a team or an address. Only its digest is kept.
        now: the time of day.
    """
    limit = LIMITS[kind]
    key = f"{kind}:{sha256(who.encode()).hexdigest()[:32]}"
    with transaction.atomic():  # on SQLite it locks the database; elsewhere `select_for_update` locks the row
        RequestBudget.objects.get_or_create(key=key, defaults={"tokens": limit.burst, "updated": now})
        row = RequestBudget.objects.select_for_update().get(key=key)
        passed = max(0.0, (now - row.updated).total_seconds())
        left = min(float(limit.burst), row.tokens + passed * limit.burst / limit.seconds)
        if left < 1:
            return max(1, math.ceil((1 - left) * limit.seconds / limit.burst))
        row.tokens, row.updated = left - 1, max(now, row.updated)
        row.save(update_fields=["tokens", "updated"])
    return 0


def sweep(now: datetime) -> None:
    """Removes buckets that are full again."""
    RequestBudget.objects.filter(updated__lt=now - _KEPT).delete()
