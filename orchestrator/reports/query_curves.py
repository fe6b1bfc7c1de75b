"""The curves of attacks that query defences, as a page draws them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log10

from orchestrator.reports.leaderboards import SubmissionLabel
from orchestrator.scoring.results_file import QueryPart

WIDTH, HEIGHT = 320, 120
"""The size of the field in which a curve is drawn, in pixels."""


@dataclass(frozen=True, slots=True)
class CurveView:
    """An attack's queries to one defence; `points` are the corners of the curve in the field, in SVG's notation."""

    part: QueryPart
    defence: SubmissionLabel
    points: str


@dataclass(frozen=True, slots=True)
class QueriesView:
    """The curves of one attack. The field's horizontal axis is logarithmic, from one query to `most`."""

    attack: SubmissionLabel
    most: int
    curves: tuple[CurveView, ...]
    width: int = WIDTH
    height: int = HEIGHT


def query_views(parts: Sequence[QueryPart], labels: Mapping[str, SubmissionLabel]) -> tuple[QueriesView, ...]:
    """Returns the curves, grouped by attack."""
    views = []
    for attack, group in groupby(parts, key=lambda part: part.attack):
        of_attack = list(group)
        most = max(2, *(-(-part.queries // part.pictures) for part in of_attack), *(_last(part) for part in of_attack))
        curves = tuple(
            CurveView(part, labels.get(part.defence) or SubmissionLabel(part.defence), _points(part, most))
            for part in of_attack
        )
        views.append(QueriesView(labels.get(attack) or SubmissionLabel(attack), most, curves))
    return tuple(views)


def _last(part: QueryPart) -> int:
    return part.curve[-1][0] if part.curve else 1


def _points(part: QueryPart, most: int) -> str:
    """Returns the corners of a curve that rises in steps from the left edge of the field to the right edge."""
    corners, share = [(0.0, 0.0)], 0.0
    for number, reached in part.curve:
        across = WIDTH * log10(number) / log10(most)
        corners += [(across, share), (across, reached)]
        share = reached
    corners.append((float(WIDTH), share))
    return " ".join(f"{across:.1f},{HEIGHT * (1 - height):.1f}" for across, height in corners)
