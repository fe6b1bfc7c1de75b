"""Amounts, splits and accounts of the unrestricted contest (U10)."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from orchestrator.errors import Problem
from orchestrator.formats.unrestricted.money import (
    ATTACKERS,
    DEFENDERS,
    EXPONENTS,
    MAX_UNITS,
    OUTSIDE,
    POOL,
    SPLIT_RULE,
    Books,
    Claim,
    Money,
    MoneyText,
    Transfer,
    TransferKind,
    format_units,
    halve,
    reserved,
    split,
    stake,
    team_account,
)


@pytest.mark.parametrize(
    ("text", "units"),
    [("1000.50 EUR", 100050), ("1000 EUR", 100000), ("0.05 USD", 5), ("1000 JPY", 1000), ("1.234 KWD", 1234)],
)
def test_amounts_are_whole_numbers_of_smallest_units(text, units) -> None:
    """A text gives the same number of units in every currency that its decimals say."""
    assert Money.parse(text).units == units


@given(st.integers(0, MAX_UNITS), st.sampled_from(sorted(EXPONENTS)))
def test_what_is_printed_is_read_back(units, currency) -> None:
    """Printing and parsing an amount gives the same amount, in every currency."""
    assert Money.parse(str(Money(units, currency))) == Money(units, currency)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1000.5 EUR", "EUR has 2 decimals"),
        ("1000.500 EUR", "EUR has 2 decimals"),
        ("1000.0 JPY", "JPY has 0 decimals"),
        ("1.50 KWD", "KWD has 3 decimals"),
        ("10 XYZ", "XYZ is not a currency"),
        ("10 XAU", "XAU is not a currency"),
        ("1,000.00 EUR", "is not an amount"),
        ("-5.00 EUR", "is not an amount"),
        ("1e3 EUR", "is not an amount"),
        ("007.00 EUR", "is not an amount"),
        ("10.00", "is not an amount"),
        ("10.00 eur", "is not an amount"),
        ("\u0661.00 EUR", "is not an amount"),
        ("10.00 EUR\n", "is not an amount"),
        (f"{MAX_UNITS + 1} JPY", "is not an amount"),
        (f"{'9' * 5000} JPY", "is too large; write at most 9007199254740991 JPY"),
    ],
)
def test_other_amounts_are_refused(text, says) -> None:
    """Wrong decimals, unknown currencies, signs, separators and huge numbers are refused with the remedy."""
    with pytest.raises(ValueError, match=says):
        Money.parse(text)


@pytest.mark.parametrize("units", [10.0, True, -1, MAX_UNITS + 1, "10"])
def test_only_integers_are_units(units) -> None:
    """A float, a boolean, a negative number and one that JSON cannot hold exactly are no amounts."""
    with pytest.raises(ValueError, match="is not an amount"):
        Money(units, "EUR")


def test_a_model_reads_and_writes_text() -> None:
    """In a file an amount is text with its currency; a number is refused, whole or not."""

    class Prizes(BaseModel):
        pool: MoneyText

    prizes = Prizes.model_validate_json('{"pool": "1000.50 EUR"}')
    assert prizes.pool == Money(100050, "EUR")
    assert Prizes.model_validate_json(prizes.model_dump_json()) == prizes
    for number in ("1000.50", "1000"):
        with pytest.raises(ValidationError, match="write it with its currency"):
            Prizes.model_validate_json(f'{{"pool": {number}}}')


def test_negative_balances_are_printed_with_a_sign() -> None:
    """The account outside holds minus what came in."""
    assert format_units(-5, "EUR") == "-0.05 EUR"
    assert format_units(-5, "JPY") == "-5 JPY"


def test_odd_cents_go_to_the_earliest_receipts() -> None:
    """100.00 over three is 33.34 for the earliest receipt and 33.33 for the others; then the team's id decides."""
    claims = [Claim("c", "c", 3), Claim("b", "b", 1), Claim("a", "a", 2)]
    assert split(10000, claims) == {"c": 3333, "b": 3334, "a": 3333}
    assert split(20000, claims) == {"c": 6666, "b": 6667, "a": 6667}
    assert split(1, [replace(claim, receipt=1) for claim in claims]) == {"c": 0, "b": 0, "a": 1}


def test_the_largest_remainder_comes_first() -> None:
    """A unit goes to who lost most by rounding, before receipts count."""
    claims = [Claim("b", "b", 1, Fraction(5)), Claim("a", "a", 2, Fraction(3))]
    assert split(10, claims) == {"a": 4, "b": 6}  # 3.75 and 6.25


CLAIMS = st.lists(
    st.builds(
        Claim,
        key=st.text("abcdef", min_size=1, max_size=3),
        team=st.sampled_from("xyz"),
        receipt=st.integers(1, 9),
        weight=st.builds(Fraction, st.integers(1, 9), st.integers(1, 30)),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda claim: claim.key,
)


@pytest.mark.slow
@settings(max_examples=50)
@given(st.integers(0, MAX_UNITS), CLAIMS, st.randoms(use_true_random=False))
def test_a_split_is_exact_and_fair(amount, claims, random) -> None:
    """Shares sum to the amount, differ from the exact fraction by less than a unit, and do not depend on the order."""
    shares = split(amount, claims)
    total = sum(claim.weight for claim in claims)
    assert sum(shares.values()) == amount
    assert all(abs(shares[claim.key] - amount * claim.weight / total) < 1 for claim in claims)
    assert split(amount, random.sample(claims, len(claims))) == shares


@pytest.mark.parametrize(
    ("amount", "claims"),
    [(1, []), (-1, [Claim("a", "a", 1)]), (1, [Claim("a", "a", 1)] * 2), (1, [Claim("a", "a", 1, Fraction(0))])],
)
def test_what_cannot_be_split_is_refused(amount, claims) -> None:
    """No claim, a negative amount, one claim twice and a weight of 0 are mistakes of the caller."""
    with pytest.raises(ValueError, match="claim"):
        split(amount, claims)


def test_the_odd_unit_is_the_attackers() -> None:
    """Halving an odd pool gives the attackers one unit more."""
    assert halve(101) == (51, 50)
    assert halve(100) == (50, 50)


def _opened() -> Books:
    books = Books("EUR").post_all(
        [
            Transfer(TransferKind.FUNDED, OUTSIDE, POOL, 1000),
            Transfer(TransferKind.HALVED, POOL, ATTACKERS, 500),
            Transfer(TransferKind.HALVED, POOL, DEFENDERS, 500),
            Transfer(TransferKind.RESERVED, ATTACKERS, reserved("d1"), 100, "d1"),
            Transfer(TransferKind.STAKE_PAID, OUTSIDE, stake("d2"), 100, "d2"),
            Transfer(TransferKind.BREAK_PRIZE, reserved("d1"), team_account("t"), 60, "d1", "t"),
        ]
    )
    assert isinstance(books, Books)
    return books


AWARD = "break_prize:d1:t"
PAYMENT = Transfer(TransferKind.PAID, team_account("t"), OUTSIDE, 60, "d1", "t", award=AWARD, note="bank 1")
REFUSED = [
    (Transfer(TransferKind.FUNDED, OUTSIDE, POOL, 1), "already made"),
    (Transfer(TransferKind.RESERVED, ATTACKERS, reserved("d3"), 401, "d3"), "holds 4.00 EUR, and 4.01 EUR are needed"),
    (Transfer(TransferKind.RESERVED, ATTACKERS, reserved("d2"), 1, "d2"), "is already staked"),
    (Transfer(TransferKind.STAKE_PAID, OUTSIDE, stake("d1"), 1, "d1"), "is already staked"),
    (Transfer(TransferKind.BREAK_PRIZE, reserved("d1"), team_account("t"), 40, "d1", "t"), "already made"),
    (Transfer(TransferKind.BREAK_PRIZE, reserved("d1"), team_account("u"), 41, "d1", "u"), "holds 0.40 EUR"),
    (Transfer(TransferKind.BREAK_PRIZE, reserved("d1"), team_account("t"), 1, "d1", "u"), "cannot go from"),
    (Transfer(TransferKind.BREAK_PRIZE, DEFENDERS, team_account("u"), 1, "d1", "u"), "cannot go from"),
    (Transfer(TransferKind.DEFENCE_PRIZE, OUTSIDE, team_account("u"), 1, "d1", "u", 90), "cannot go from"),
    (Transfer(TransferKind.STAKE_REFUNDED, stake("d2"), team_account("u"), 0, "d2", "u"), "cannot be moved"),
    (Transfer(TransferKind.STAKE_REFUNDED, stake("d2"), team_account("u"), -1, "d2", "u"), "cannot be moved"),
    (replace(PAYMENT, amount=59), "the award is 0.60 EUR for team:t"),
    (replace(PAYMENT, award="break_prize:d1:u"), "there is no award"),
    (replace(PAYMENT, award="funded"), "there is no award"),
    (replace(PAYMENT, award=""), "has to name an award"),
    (replace(PAYMENT, kind=TransferKind.WITHHELD, target=DEFENDERS), "cannot go to defenders"),
]


@pytest.mark.parametrize(("transfer", "says"), REFUSED, ids=range(len(REFUSED)))
def test_books_refuse_what_cannot_be(transfer, says) -> None:
    """No account is overdrawn, nothing happens twice, and money takes no other way than its kind says."""
    problem = _opened().post(transfer)
    assert isinstance(problem, Problem)
    assert says in problem.what


@pytest.mark.parametrize("second", [PAYMENT, replace(PAYMENT, kind=TransferKind.WITHHELD, target=ATTACKERS)])
@pytest.mark.parametrize("first", [PAYMENT, replace(PAYMENT, kind=TransferKind.WITHHELD, target=ATTACKERS)])
def test_an_award_is_paid_or_withheld_once(first, second) -> None:
    """After an award was paid or withheld it can be neither, though its team is owed as much for something else."""
    other = Transfer(TransferKind.DEFENCE_PRIZE, DEFENDERS, team_account("t"), 60, "d9", "t", 90)
    books = _opened().post_all([other, first])
    assert isinstance(books, Books)
    assert isinstance(books.post(second), Problem)
    assert books.unpaid() == [other]


def test_books_are_never_changed() -> None:
    """Posting returns new books and leaves the old ones as they were."""
    books = _opened()
    after = books.post(PAYMENT)
    assert isinstance(after, Books)
    assert (books.balance("team:t"), after.balance("team:t")) == (60, 0)
    assert [transfer.id for transfer in books.unpaid()] == [AWARD]


def test_the_published_rule_is_the_one_of_the_program() -> None:
    """docs/prizes.md has the rule for splitting word for word."""
    page = Path(__file__).parents[3] / "docs" / "prizes.md"
    assert SPLIT_RULE in " ".join(page.read_text("utf-8").split())
