"""The success rate of attacks that query, by the number of queries (X6)."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.plan import Cell
from orchestrator.domain.queries import QueryRecord
from orchestrator.domain.submissions import Roster
from orchestrator.ledger.read_model import RoundView
from orchestrator.measures import uncertainty
from orchestrator.scoring.intervals import DIGITS, rounded_limits
from orchestrator.scoring.results_file import QueryPart

CURVE_POINTS = 100
"""The largest number of points of a curve."""


def query_parts(record: RoundView, roster: Roster, wrong: Mapping[Cell, NDArray[np.bool_]]) -> Iterator[QueryPart]:
    """Yields the query numbers of each pair of a submitted attack and a defence, sorted by attack and defence.

    `wrong` says for each cell which delivered pictures [n] the defence misclassified, or abstained on, when they were
    judged (rule A7). The organizers' attacks are left out: they have no common budget, so their queries alone are no
    successes.
    """
    for cell in sorted(record.queried_cells(), key=lambda cell: (cell.attack or "", cell.defence)):
        asked = record.query_record(cell)
        if asked is not None and roster[cell.attack or ""].image:
            yield query_part(cell, asked, wrong.get(cell))


def query_part(cell: Cell, asked: QueryRecord, wrong: NDArray[np.bool_] | None = None) -> QueryPart:
    """Returns the query numbers of one pair.

    A success is a picture that the defence misclassified, or abstained on, at a query within the budget; its number is
    that of the first such query. A picture on which it did so only when it was judged is a success too; its number is
    how many queries were asked, at least 1. The median is over all pictures, the lower of two middle values, None if
    fewer than half of them are successes.
    """
    numbers = asked.fooled_at
    if wrong is not None:
        numbers = np.where((numbers == 0) & wrong, np.maximum(asked.queries, 1), numbers)
    first = np.sort(numbers[asked.attacked & (numbers > 0)])
    total, count = int(asked.attacked.sum()), len(first)
    middle = (total + 1) // 2
    return QueryPart(
        attack=cell.attack or "",
        defence=cell.defence,
        pictures=total,
        queries=int(asked.queries.sum()),
        successes=count,
        success=count / total,
        success_interval=rounded_limits(uncertainty.accuracy_intervals(count, total)),
        median=int(first[middle - 1]) if count >= middle else None,
        curve=_curve(first, total),
    )


def _curve(first: NDArray[np.int32], total: int) -> list[tuple[int, float]]:
    """Returns pairs of a number of queries and the share of successes after it, at the numbers where it grows."""
    numbers, counts = np.unique(first, return_counts=True)
    shares = np.cumsum(counts) / total
    if len(numbers) > CURVE_POINTS:
        chosen = np.unique(np.linspace(0, len(numbers) - 1, CURVE_POINTS).round().astype(int))
        numbers, shares = numbers[chosen], shares[chosen]
    return [(int(number), round(float(share), DIGITS)) for number, share in zip(numbers, shares, strict=True)]
