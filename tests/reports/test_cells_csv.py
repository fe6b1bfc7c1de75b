"""`cells.csv`: one row a cell, and nothing in it that a spreadsheet would run."""

import csv
from io import StringIO

import pytest

from orchestrator.domain.submissions import Side
from orchestrator.reports import tables
from orchestrator.scoring.results_file import CellPart, Results, SubmissionPart, TaskPart


def results_of(team: str, cells: list[CellPart]) -> Results:
    """Returns the parts of a round that the file is written from."""
    sides = (("madry", Side.DEFENCE, False), ("pgd", Side.ATTACK, True))
    return Results.model_construct(
        submissions=[
            SubmissionPart.model_construct(id=name, team=team, side=side, baseline=base) for name, side, base in sides
        ],
        task=TaskPart.model_construct(name="digits"),
        cells=cells,
    )


def cell(attack: str | None, delta: float | None, defence: str = "madry") -> CellPart:
    """Returns a cell of 500 pictures."""
    return CellPart(
        defence=defence,
        attack=attack,
        total=500,
        held=391,
        fooled=100,
        abstained=9,
        forfeits=3,
        faults=2,
        not_played=0,
        accuracy=0.782,
        accuracy_interval=(0.74, 0.82),
        delta=delta,
        delta_interval=None if delta is None else [delta - 2, delta + 2],
    )


def read(text: str) -> list[list[str]]:
    """Returns the rows as a CSV reader sees them."""
    return list(csv.reader(StringIO(text)))


def test_every_cell_is_a_row():
    """Clean cells have an empty attack; numbers are written in full; a negative delta stays a number."""
    rows = read(tables.cells_csv(results_of("Lilac", [cell(None, None), cell("pgd", -3.2)])))
    counts = ["500", "391", "100", "9", "3", "2", "0", "0.782"]
    assert rows == [
        [column.name for column in tables.ROUND_CELLS],
        ["madry", "Lilac", "no", "", "", "", *counts, ""],
        ["madry", "Lilac", "no", "pgd", "Lilac", "yes", *counts, "-3.2"],
    ]


@pytest.mark.parametrize(
    ("team", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("  =1", "  '=1"),
        ("\uff1d1", "'\uff1d1"),
        ("\t=1", "\\t=1"),
        ("a\r\n=1", "a\\r\\n=1"),
        ("a;=1", "a;'=1"),
        ('a",=1', "a\",'=1"),
        ("red-team, 50% = half", "red-team, 50% = half"),
        ("\x1b[31m", "\\x1b[31m"),
    ],
)
def test_no_text_is_a_formula(team, written):
    """An apostrophe stands wherever a cell could begin with a formula; control characters are written as escapes."""
    rows = read(tables.cells_csv(results_of(team, [cell("pgd", 1.0)])))
    assert rows[1][1] == rows[1][4] == written
    assert len(rows) == 2


def test_unknown_ids_are_guarded_too():
    """A cell whose submission the results do not know has its id, guarded, and no team."""
    rows = read(tables.cells_csv(results_of("x", [cell("=cmd", 1.0)])))
    assert rows[1][3:6] == ["'=cmd", "", ""]


def test_same_results_same_text():
    """Two renderings of equal results are equal, and lines end with a line feed alone."""
    results = results_of("x", [cell(None, None)])
    assert tables.cells_csv(results) == tables.cells_csv(results)
    assert "\r" not in tables.cells_csv(results)
