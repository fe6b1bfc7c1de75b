"""How often an attack that queries succeeds, by how many queries it may ask (X6)."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.plan import Cell
from orchestrator.domain.queries import QueryRecord
from orchestrator.domain.submissions import Roster
from orchestrator.ledger.read_model import RoundView
from orchestrator.measures import uncertainty
from orchestrator.scoring.results_file import QueryPart

CURVE_POINTS = 100
"""A curve has no more points than this, besides its last."""
_DIGITS = 6


def query_parts(record: RoundView, roster: Roster, fooled: Mapping[Cell, NDArray[np.bool_]]) -> Iterator[QueryPart]:
    """Yields what every attack of a submission asked each defence, by attack and defence.

    `fooled` says of each cell which delivered pictures [n] the defence misread when it was judged.
    Organizers' attacks have no common budget, so nothing is a success of theirs before it is judged.
    """
    for cell in sorted(record.queried_cells(), key=lambda cell: (cell.attack or "", cell.defence)):
        asked = record.query_record(cell)
        if asked is not None and roster[cell.attack or ""].image:
            yield query_part(cell, asked, fooled.get(cell))


def query_part(cell: Cell, asked: QueryRecord, fooled: NDArray[np.bool_] | None = None) -> QueryPart:
    """Returns the numbers of one pair.

    A success is a picture that the defence misread at a query within the budget, and its number that of the first such
    query; or one that it misread when it was judged: then its number is how many queries were asked, at least 1. The
    median is over all pictures, the lower one of two middle values: None where fewer than half of them are successes.
    """
    numbers = asked.fooled_at
    if fooled is not None:
        numbers = np.where((numbers == 0) & fooled, np.maximum(asked.queries, 1), numbers)
    first = np.sort(numbers[asked.attacked & (numbers > 0)])
    total, count = int(asked.attacked.sum()), len(first)
    middle = (total + 1) // 2
    limits = uncertainty.accuracy_intervals(count, total)
    return QueryPart(
        attack=cell.attack or "",
        defence=cell.defence,
        pictures=total,
        queries=int(asked.queries.sum()),
        successes=count,
        success=count / total,
        success_interval=(round(float(limits.low), _DIGITS), round(float(limits.high), _DIGITS)),
        median=int(first[middle - 1]) if count >= middle else None,
        curve=_curve(first, total),
    )


def _curve(first: NDArray[np.int32], total: int) -> list[tuple[int, float]]:
    """Returns after how many queries which share of the pictures was a success, at every number where it grows."""
    numbers, counts = np.unique(first, return_counts=True)
    shares = np.cumsum(counts) / total
    if len(numbers) > CURVE_POINTS:
        chosen = np.unique(np.linspace(0, len(numbers) - 1, CURVE_POINTS).round().astype(int))
        numbers, shares = numbers[chosen], shares[chosen]
    return [(int(number), round(float(share), _DIGITS)) for number, share in zip(numbers, shares, strict=True)]
