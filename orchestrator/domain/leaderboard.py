"""Leaderboards: the ranks of submissions, and why a submission is not ranked."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import groupby

from orchestrator.domain.plan import Cell

ScoreTerms = Mapping[Cell, Fraction]
"""A score as a weighted sum of the accuracies of cells. Its confidence interval is computed from these (X5)."""


@dataclass(frozen=True, slots=True)
class Column:
    """The meaning of one number of a row. `name` is its key in results.json and in tables.

    `unit` is for example points, share or pictures; `more_is_better` is None if neither is better.
    """

    name: str
    title: str
    unit: str
    more_is_better: bool | None = None
    measure: str = ""
    """What is measured, in a few words; empty if the title says it."""


@dataclass(frozen=True, slots=True)
class Value:
    """A number in a column. If its interval can be computed from cells, `terms` are as in `Row.score_terms`.

    A format that estimates the uncertainty of a number in another way gives the 95 % `interval` itself.
    """

    number: Fraction | int | None
    terms: ScoreTerms = field(default_factory=dict)
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a leaderboard. If `rank` is None, the submission is not ranked, and `reason` says why."""

    submission: str
    score: Fraction | None
    rank: int | None = None
    reason: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)
    """The values of the board's other columns, by the names of the columns."""
    tie_break: int = 0
    """Equal scores rank by this number first, the smaller the better (rule A16)."""
    receipt_number: int | None = None
    """Its place in the order of the contest's ledger; None if the contest's ledger did not receive it."""
    submitted: str = ""
    """When it was submitted, by the contest file. It orders only submissions without a receipt number."""
    score_terms: ScoreTerms = field(default_factory=dict)
    """The weights of the cells in the score, which is 100 times the sum of weight x accuracy, in points."""
    interval: tuple[float, float] | None = None
    """The score's 95 % interval, if it has no terms and the format estimates its uncertainty in another way."""
    remark: str = ""
    """What a reader has to know about this row, which is still ranked; a few words."""
    no_prize: str = ""
    """Why this row gets no prize although it is ranked (rule A5)."""
    prize_rank: int | None = None
    """The rank among the rows that may get a prize; shared if the rank is shared."""


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """A ranking with its meaning: what the score is, in which unit, and whether more is better.

    `columns` are the other numbers of a row, in the order in which they are shown.
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

    Ties rank by `tie_break`, then by the earlier submission; rows that still tie share a rank. The order of the
    contest's ledger decides which submission is earlier, never a clock. Submissions that the ledger did not receive
    follow, in the order of the times in their contest file. Rows with a `reason` or without a score follow unranked,
    best score first, then by name. Prizes skip rows with `no_prize` (A5).
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
    prizes = 0
    for _, tied in groupby(ranked, key=merit):
        rank, prize_rank = len(result) + 1, prizes + 1
        for row in tied:
            result.append(replace(row, rank=rank, prize_rank=None if row.no_prize else prize_rank))
            prizes += not row.no_prize
    return (*result, *unranked)
