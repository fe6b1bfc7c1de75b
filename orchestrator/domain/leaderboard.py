"""Boards: who stands where, and why somebody is not ranked."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from orchestrator.domain.plan import Cell

ScoreTerms = Mapping[Cell, Fraction]
"""A score as a weighted sum of the accuracies of cells: what makes its uncertainty a matter of pictures (X5)."""


@dataclass(frozen=True, slots=True)
class Column:
    """What one number of a row means. `name` is its key in results.json and in tables.

    `unit` is such as points, share or pictures; `more_is_better` None where neither is better.
    """

    name: str
    title: str
    unit: str
    more_is_better: bool | None = None
    measure: str = ""
    """What is measured, in a few words; empty where the title says it."""


@dataclass(frozen=True, slots=True)
class Value:
    """A number in a column. `terms` say what it is made of where it has an interval, see `Row.score_terms`.

    A format that has another measure of how sure a number is gives the 95 % `interval` itself.
    """

    number: Fraction | int | None
    terms: ScoreTerms = field(default_factory=dict)
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a board. `rank` is None for what is not ranked, and then `reason` says why."""

    submission: str
    score: Fraction | None
    rank: int | None = None
    reason: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)
    """What stands in the board's other columns, by their names."""
    tie_break: int = 0
    """Equal scores rank by this number first, the smaller the better (rule A16)."""
    receipt_number: int | None = None
    """Its place in the order of the contest's ledger; None where no ledger received it."""
    submitted: str = ""
    """When its organizers say that it came; it only orders what no ledger received."""
    score_terms: ScoreTerms = field(default_factory=dict)
    """What the score is made of: it is 100 times the sum of weight x accuracy, in points."""
    interval: tuple[float, float] | None = None
    """The score's 95 % interval, where it has no terms and the format has another measure of how sure it is."""
    remark: str = ""
    """What a reader has to know of this row, which is ranked all the same; a few words."""
    no_prize: str = ""
    """Why this row gets no prize although it is ranked (rule A5)."""
    prize_rank: int | None = None
    """The place among those who may get a prize; shared as ranks are."""


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """A ranking with its meaning: what the score is, in which unit, and whether more is better.

    `columns` are what else a row says, in the order in which it is shown.
    """

    name: str
    title: str
    measure: str
    unit: str
    more_is_better: bool
    rules: tuple[str, ...]
    rows: tuple[Row, ...]
    columns: tuple[Column, ...] = ()


def rank_rows(rows: Iterable[Row], *, more_is_better: bool) -> tuple[Row, ...]:
    """Returns the rows in order, with ranks (rule A16).

    Ties rank by `tie_break`, then by the earlier submission; a tie that remains is a shared rank. What is earlier
    says the contest's ledger, never a clock; submissions that it did not receive follow, by the times in their contest
    file. Rows with a `reason` or without a score follow unranked, best score first, then by name. Prizes skip rows with
    `no_prize` (A5).
    """
    rows = list(rows)
    sign = -1 if more_is_better else 1

    def merit(row: Row) -> tuple[Fraction, int, tuple[bool, int], str]:
        arrived = (row.receipt_number is None, row.receipt_number or 0)
        submission_time = "" if row.receipt_number is not None else row.submitted or "~"
        return (sign * (row.score or Fraction(0)), row.tie_break, arrived, submission_time)

    ranked = sorted((r for r in rows if not r.reason and r.score is not None), key=lambda r: (merit(r), r.submission))
    unranked = sorted(
        (r for r in rows if r.reason or r.score is None),
        key=lambda r: (r.score is None, merit(r), r.submission),
    )
    result: list[Row] = []
    before = None
    paid = 0
    for place, row in enumerate(ranked, start=1):
        tied = bool(result) and merit(ranked[place - 2]) == merit(row)
        number = result[-1].rank if tied else place
        won = None
        if not row.no_prize:
            paid += 1
            won = before.prize_rank if before is not None and before.rank == number else paid
        result.append(replace(row, rank=number, prize_rank=won))
        before = result[-1] if won is not None else before
    return (*result, *unranked)
