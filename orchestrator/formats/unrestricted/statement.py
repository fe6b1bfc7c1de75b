"""Statements of the unrestricted contest's accounts: transfers of a period, and the balances before and after it.

They are public (U10). Accounts name teams and defences by their ids; where a payment went is not in the ledger.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

from orchestrator.formats.unrestricted.money import OUTSIDE, Transfer
from orchestrator.formats.unrestricted.week_calendar import first_instant, local_day

_DECEMBER = 12


@dataclass(frozen=True, slots=True)
class AccountMovement:
    """The balance of an account before a period, and what it received and gave in the period, in smallest units."""

    account: str
    before: int
    received: int
    given: int

    @property
    def after(self) -> int:
        """The balance at the end of the period."""
        return self.before + self.received - self.given


@dataclass(frozen=True, slots=True)
class Statement:
    """The transfers from `since` to before `until`, in order, and the accounts with a balance or a transfer."""

    currency: str
    since: datetime
    until: datetime
    transfers: tuple[tuple[datetime, Transfer], ...]
    accounts: tuple[AccountMovement, ...]


def statement(
    currency: str, transfers: Iterable[tuple[datetime, Transfer]], since: datetime, until: datetime
) -> Statement:
    """Returns the statement of a period. `transfers` are all transfers of the contest in order, with their times."""
    before: dict[str, int] = {}
    received: dict[str, int] = {}
    given: dict[str, int] = {}
    moved = []
    for at, transfer in transfers:
        if at < since:
            for account, change in transfer.entries():
                before[account] = before.get(account, 0) + change
        elif at < until:
            moved.append((at, transfer))
            given[transfer.source] = given.get(transfer.source, 0) + transfer.amount
            received[transfer.target] = received.get(transfer.target, 0) + transfer.amount
    names = {account for account, held in before.items() if held} | set(given) | set(received)
    accounts = tuple(
        AccountMovement(account, before.get(account, 0), received.get(account, 0), given.get(account, 0))
        for account in sorted(names, key=lambda account: (account == OUTSIDE, account))
    )
    return Statement(currency, since, until, tuple(moved), accounts)


def monthly_statements(
    currency: str, transfers: Sequence[tuple[datetime, Transfer]], zone: ZoneInfo
) -> Mapping[str, Statement]:
    """Returns a statement for each calendar month of the contest's zone, from the first transfer to the last.

    An example of a key is `2027-01`. A month without a transfer has a statement, too.
    """
    found: dict[str, Statement] = {}
    if not transfers:
        return found
    month = local_day(transfers[0][0], zone).replace(day=1)
    last = local_day(transfers[-1][0], zone)
    while month <= last:
        following = _next_month(month)
        since, until = first_instant(month, zone), first_instant(following, zone)
        found[f"{month:%Y-%m}"] = statement(currency, transfers, since, until)
        month = following
    return found


def _next_month(month: date) -> date:
    return date(month.year + month.month // _DECEMBER, month.month % _DECEMBER + 1, 1)
