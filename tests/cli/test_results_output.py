"""Boards on a terminal."""

from dataclasses import replace

import pytest

from orchestrator.cli import console, results_output
from orchestrator.cli.tables import Column, fitting_tables
from orchestrator.scoring.results_file import ColumnPart, ValuePart, WaitingPart
from tests.reports.pages import results_of


@pytest.mark.parametrize(
    ("width", "count", "tables"),
    [(180, results_output.WIDE_BOARD, 1), (80, results_output.WIDE_BOARD, 2), (80, results_output.WIDE_BOARD + 5, 4)],
)
def test_a_board_of_many_columns_is_several_tables(capsys, monkeypatch, width, count, tables) -> None:
    """Each number of it is printed whole, and a board that fits is one table."""
    monkeypatch.setenv("COLUMNS", str(width))
    results = results_of()
    columns = [ColumnPart(name=f"c{n}", title=f"C{n}", unit="", more_is_better=None, measure="") for n in range(count)]
    values = {f"c{n}": ValuePart(value=n + 0.125, exact=None, interval=None) for n in range(count)}
    board = results.boards[0]
    rows = [row.model_copy(update={"values": values, "submission": f"s{n}"}) for n, row in enumerate(board.rows)]
    wide = board.model_copy(update={"columns": columns, "rows": rows})
    results_output.print_results(results.model_copy(update={"boards": [wide]}))
    text = capsys.readouterr().out.split("Accuracy in %")[0]
    assert sum(set(line.strip()) == {"─"} for line in text.splitlines()) == tables  # each has one line below its head
    if tables > 1:
        assert all(f"{n + 0.125:.4f}".rstrip("0") in text for n in range(count))
        assert "…" not in text


def test_jobs_that_wait_for_one_reason_are_one_line(capsys) -> None:
    """A defence that cannot start waits with the job of each attack, and says why once."""
    lost = {"submission": "shield", "stage": "classify", "code": "sandbox-lost", "message": "its copy is gone"}
    waiting = [WaitingPart(**lost, job=f"job{n}") for n in range(3)]
    other = WaitingPart(**lost | {"message": "the engine ended"}, job="job3")
    results_output.print_alarms(results_of().model_copy(update={"alarms": [], "waiting": [*waiting, other]}))
    assert capsys.readouterr().out.splitlines() == [
        "waits: shield, classify sandbox-lost: its copy is gone (3 jobs)",
        "waits: shield, classify sandbox-lost: the engine ended",
    ]


def matrix_lines(results, capsys) -> list[list[str]]:
    """Prints results and returns the words of the lines of the matrix."""
    results_output.print_results(results)
    text = capsys.readouterr().out.split("Accuracy in %")[1]
    return [line.split() for line in text.splitlines() if line.strip()]


def test_the_matrix_has_a_row_for_each_attack(capsys, monkeypatch) -> None:
    """Attacks are rows and defences columns, as on the pages, whichever are more."""
    monkeypatch.setenv("COLUMNS", "80")
    results = results_of()
    lines = matrix_lines(results, capsys)
    assert lines[0] == ["attack", *dict.fromkeys(cell.defence for cell in results.cells)]
    few = results.model_copy(update={"cells": [cell for cell in results.cells if cell.attack in {None, "pgd"}]})
    assert [line[0] for line in matrix_lines(few, capsys)[2:4]] == ["clean", "pgd"]


def test_a_wide_matrix_is_several_tables(capsys, monkeypatch) -> None:
    """On a terminal too narrow for all defences no name and no number is broken or left out."""
    monkeypatch.setenv("COLUMNS", "40")
    results = results_of()
    cells = [
        replace(cell, defence=f"{cell.defence}_with_a_long_name")
        for cell in results.cells
        if cell.attack in {None, "pgd"}
    ]
    lines = matrix_lines(results.model_copy(update={"cells": cells}), capsys)
    assert [line for line in lines if line[0] == "attack"] == [["attack", cell.defence] for cell in cells[::2]]
    shown = [line[1] for line in lines if line[0] in {"clean", "pgd"}]
    assert shown == [f"{100 * cell.accuracy:.1f}" for cell in cells]


def test_long_remarks_break_no_word_beside_them(capsys, monkeypatch) -> None:
    """Two columns of sentences share what the numbers leave, and neither is narrower than its longest word."""
    monkeypatch.setenv("COLUMNS", "80")
    remark = "clean accuracy 16.7% is below the floor of 86.7% (A17)"
    columns = [
        Column("rank", ["-", "-"], is_number=True),
        Column("submission", ["bare_d", "fgsm_trained"]),
        Column("team", ["D", "organizers"], is_sentence=True),
        Column("score", ["4.67", "30.67"], is_number=True),
        Column("95 %", ["-5.8 to 14.6", "10.3 to 47.2"], is_number=True),
        Column("could be", ["", "1 to 2"]),
        Column("no answer", ["0", "0"], is_number=True),
        Column("remarks", [remark, "baseline"], is_sentence=True),
    ]
    [table] = fitting_tables(columns)
    console.out.print(table)
    words = {word for line in capsys.readouterr().out.splitlines() for word in line.split()}
    assert {*remark.split(), "organizers"} <= words


def test_a_narrow_terminal_breaks_no_number_and_no_word(capsys, monkeypatch) -> None:
    """At 80 columns scores, intervals and ids of boards and replays stay whole, teams are broken at spaces."""
    monkeypatch.setenv("COLUMNS", "80")
    results = results_of()
    teams = [part.model_copy(update={"team": "Regression to the Mean"}) for part in results.submissions]
    cells = [cell for cell in results.cells if cell.attack in {None, "pgd"}]
    results_output.print_results(results.model_copy(update={"submissions": teams, "cells": cells}))
    text = capsys.readouterr().out
    for board in results.boards:
        for row in board.rows:
            assert row.interval is None or "{:.1f} to {:.1f}".format(*row.interval) in text
    assert "96.5% / 99.7% / 99.7%" in text
    assert text.count(" Regression ") == sum(len(board.rows) for board in results.boards)
