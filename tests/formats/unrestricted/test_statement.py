"""Statements of accounts of the unrestricted contest (U10)."""

from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.formats.unrestricted.money import (
    ATTACKERS,
    DEFENDERS,
    OUTSIDE,
    POOL,
    Books,
    Money,
    Transfer,
    TransferKind,
    reserved,
    team_account,
)
from orchestrator.formats.unrestricted.prizes import open_accounts
from orchestrator.formats.unrestricted.statement import monthly_statements, statement
from orchestrator.formats.unrestricted.week_calendar import load_zone

OPENED = datetime(2026, 12, 31, 23, 30, tzinfo=UTC)
"""In Berlin it is 2027 already."""


@pytest.fixture
def dated() -> list[tuple[datetime, Transfer]]:
    """A contest's transfers with their times: opened, staked, broken in March, paid in April."""
    award = Transfer(TransferKind.BREAK_PRIZE, reserved("d1"), team_account("=t"), 3334, "d1", "=t")
    return [
        *((OPENED, transfer) for transfer in open_accounts(Money(100_001, "EUR"))),
        (datetime(2027, 1, 9, tzinfo=UTC), Transfer(TransferKind.RESERVED, ATTACKERS, reserved("d1"), 3334, "d1")),
        (datetime(2027, 3, 31, 21, 59, 59, tzinfo=UTC), award),
        (
            datetime(2027, 3, 31, 22, tzinfo=UTC),
            Transfer(TransferKind.PAID, award.target, OUTSIDE, 3334, "d1", "=t", award=award.id, note="bank 1"),
        ),
    ]


def test_months_are_those_of_the_contest(dated) -> None:
    """Months begin at midnight in the contest's zone, and one without transfers has its statement too."""
    months = monthly_statements("EUR", dated, load_zone("Europe/Berlin"))
    assert [(name, len(each.transfers)) for name, each in months.items()] == [
        ("2027-01", 4),
        ("2027-02", 0),
        ("2027-03", 1),
        ("2027-04", 1),
    ]
    assert list(monthly_statements("EUR", dated, load_zone("UTC"))) == ["2026-12", "2027-01", "2027-02", "2027-03"]
    assert monthly_statements("EUR", [], load_zone("UTC")) == {}


def test_statements_join(dated) -> None:
    """Each statement sums to 0 and begins as the one before ended; the last ends with the books' balances."""
    held: dict[str, int] = {}
    for each in monthly_statements("EUR", dated, load_zone("Europe/Berlin")).values():
        assert {a.account: a.before for a in each.accounts if a.before} == held
        assert sum(a.before for a in each.accounts) == sum(a.after for a in each.accounts) == 0
        assert sum(a.received for a in each.accounts) == sum(a.given for a in each.accounts)
        held = {a.account: a.after for a in each.accounts if a.after}
    books = Books("EUR").post_all(transfer for _, transfer in dated)
    assert isinstance(books, Books)
    assert held == {account: units for account, units in books.balances.items() if units}


def test_a_statement_has_what_moved_and_what_accounts_held(dated) -> None:
    """It lists the transfers of its period, and every account that held or moved something in it."""
    found = statement("EUR", dated, OPENED + timedelta(days=60), OPENED + timedelta(days=100))
    assert [transfer.id for _, transfer in found.transfers] == ["break_prize:d1:=t", "paid:break_prize:d1:=t"]
    assert [(each.account, each.before, each.received, each.given, each.after) for each in found.accounts] == [
        (ATTACKERS, 46667, 0, 0, 46667),
        (DEFENDERS, 50000, 0, 0, 50000),
        ("reserved:d1", 3334, 0, 3334, 0),
        ("team:=t", 0, 3334, 3334, 0),
        (OUTSIDE, -100001, 3334, 0, -96667),
    ]
    assert POOL not in {each.account for each in found.accounts}
