"""Boards on a terminal."""

import pytest

from orchestrator.cli import results_output
from orchestrator.scoring.results_file import ColumnPart, ValuePart
from tests.reports.pages import results_of


@pytest.mark.parametrize(("count", "tables"), [(results_output.WIDE_BOARD, 1), (results_output.WIDE_BOARD + 5, 4)])
def test_a_board_of_many_columns_is_several_tables(capsys, count, tables) -> None:
    """Each number of it is printed whole on 80 columns, and none of a board that has few is moved."""
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
