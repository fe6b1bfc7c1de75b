"""Boards: who stands where, and why somebody is not ranked."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a board. `rank` is None for what is not ranked, and then `reason` says why."""

    submission: str
    score: Fraction | None
    rank: int | None = None
    reason: str = ""
    violations: int = 0
    submitted: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """A ranking with its meaning: what the score is, in which unit, and whether more is better."""

    name: str
    title: str
    measure: str
    unit: str
    more_is_better: bool
    rules: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = field(default=())


def rank(rows: Iterable[Row], *, more_is_better: bool) -> tuple[Row, ...]:
    """Returns the rows in order, with ranks (rule A16).

    Ties rank by fewer violations, then by the earlier submission; a tie that remains is a shared rank. Rows with a
    `reason` or without a score follow unranked, best score first, then by name.
    """
    rows = list(rows)
    sign = -1 if more_is_better else 1

    def merit(row: Row) -> tuple[Fraction, int, str]:
        return (sign * (row.score or Fraction(0)), row.violations, row.submitted or "~")

    ranked = sorted((r for r in rows if not r.reason and r.score is not None), key=lambda r: (merit(r), r.submission))
    unranked = sorted(
        (r for r in rows if r.reason or r.score is None),
        key=lambda r: (r.score is None, merit(r), r.submission),
    )
    result: list[Row] = []
    for place, row in enumerate(ranked, start=1):
        tied = bool(result) and merit(ranked[place - 2]) == merit(row)
        result.append(replace(row, rank=result[-1].rank if tied else place))
    return (*result, *unranked)
