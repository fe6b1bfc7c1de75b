"""The matrix: every defence against clean pictures and every attack."""

from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from orchestrator.domain.submissions import Side
from orchestrator.results.document import CellPart, Results, SubmissionPart
from orchestrator.results.report import chosen, colours, words

MOST: Final = 60
"""Submissions of a side that the page shows; cells.csv has all."""


@dataclass(frozen=True, slots=True)
class Square:
    """One cell as shown. `step` is its colour on the scale; `told` is what there is to say about it."""

    state: Literal["played", "pending", "absent"]
    told: str
    step: int = 0
    accuracy: str = ""
    fell: bool = False
    delta: str = ""


@dataclass(frozen=True, slots=True)
class Band:
    """Neighbours of one kind: the organizers' baselines, or everybody's submissions."""

    title: str
    members: tuple[SubmissionPart, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """The matrix in the order in which it is shown; `rows` by defence, clean first and then by `columns`."""

    columns: tuple[Band, ...]
    bands: tuple[tuple[Band, tuple[tuple[SubmissionPart, tuple[Square, ...]], ...]], ...]
    width: int
    pending: int
    left_out: str


def matrix_of(results: Results) -> Matrix:
    """Returns the matrix. A cell that the results do not have is pending while the round is not complete."""
    cells = {(cell.defence, cell.attack): cell for cell in results.cells}
    columns = _bands(results, Side.ATTACK)
    attacks = (None, *(attack.id for band in columns for attack in band.members))

    def square(defence: str, attack: str | None) -> Square:
        cell = cells.get((defence, attack))
        against = "clean pictures" if attack is None else attack
        if cell is not None:
            return _played(cell, against)
        if results.complete:
            return Square("absent", f"{defence} against {against}: not part of this round")
        return Square("pending", f"{defence} against {against}: not played yet")

    bands = tuple(
        (band, tuple((d, tuple(square(d.id, attack) for attack in attacks)) for d in band.members))
        for band in _bands(results, Side.DEFENCE)
    )
    pending = sum(s.state == "pending" for _, rows in bands for _, row in rows for s in row)
    return Matrix(columns, bands, len(attacks) + 1, pending, chosen.told(results, MOST))


def _bands(results: Results, side: Side) -> tuple[Band, ...]:
    members = sorted(chosen.members(results, side, MOST)[0], key=lambda s: not s.baseline)
    return tuple(
        Band("baselines" if baseline else "submissions", tuple(group))
        for baseline, group in groupby(members, key=lambda s: s.baseline)
    )


def _played(cell: CellPart, against: str) -> Square:
    credited = 0 if cell.not_played else cell.held
    accuracy = words.percent(credited, cell.total)
    told = (
        f"{cell.defence} against {against}: {accuracy} correct, {credited:,} of {words.count(cell.total, 'picture')}; "
        f"held {cell.held:,}, fooled {cell.fooled:,}, abstained {cell.abstained:,}; "
        f"forfeits {cell.forfeits:,}, faults {cell.faults:,}"
    )
    if cell.not_played:
        told += f"; {cell.not_played:,} not played, so that nothing counts as correct (A7)"
    fell = False
    delta = ""
    if cell.delta is not None:
        delta = f"{abs(cell.delta):.1f}"
        fell = cell.delta > 0 and float(delta) > 0
        told += f"; delta {words.signed(cell.delta, 2)} points"
    return Square("played", told, colours.step(credited / cell.total if cell.total else 0.0), accuracy, fell, delta)
