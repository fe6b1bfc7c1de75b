"""Tables of a contest: as many rows as there are things, one type a column, nothing that a spreadsheet would run."""

import csv
import re
import sys
from io import BytesIO, StringIO

import pytest

from orchestrator import redaction
from orchestrator.errors import UsageError
from orchestrator.reports import parquet, tables

from .pages import results_of


def made(**changes):
    """Returns the tables of the sample round by name, as everybody may see them."""
    return {table.name: table for table in tables.contest_tables([redaction.redact_results(results_of(**changes))])}


def read(table: tables.Table) -> list[dict[str, str]]:
    """Returns the rows of a table as a CSV reader sees them."""
    return list(csv.DictReader(StringIO(tables.table_csv(table))))


def test_every_column_is_explained(document_text):
    """docs/results.md lists the columns of the three tables in their order."""
    text = document_text("results.md")
    for name, table in made().items():
        chapter = text.split(f"| column of `{name}` | meaning |\n")[1].split("\n\n")[0]
        listed = [word for line in chapter.splitlines()[1:] for word in re.findall(r"`(\w+)`", line.split(" | ")[0])]
        assert listed == list(table.columns)


def test_every_cell_row_and_submission_is_there():
    """As many rows as the results have, with the results' own numbers, rounded."""
    results, found = redaction.redact_results(results_of()), made()
    assert len(found["cells"].rows) == len(results.cells) == 12
    assert len(found["boards"].rows) == sum(len(board.rows) for board in results.boards)
    assert len(found["submissions"].rows) == len(results.submissions) == 6
    cell = next(row for row in read(found["cells"]) if (row["defence"], row["attack"]) == ("madry", "square"))
    part = next(c for c in results.cells if (c.defence, c.attack) == ("madry", "square"))
    assert (float(cell["delta"]), float(cell["delta_low"])) == (part.delta, part.delta_interval[0])
    assert (cell["held"], cell["defence_team"], cell["attack_baseline"]) == (str(part.held), "team of madry", "no")
    used = next(row for row in read(found["submissions"]) if row["submission"] == "madry")
    own = next(part for part in results.submissions if part.id == "madry")
    assert int(used["peak_bytes"]) == own.peak_bytes
    assert used["fault_codes"].split() == sorted({fault.code for fault in own.faults})


def test_columns_have_one_type():
    """Every value is of its column's type or None."""
    for table in made().values():
        for row in table.rows:
            for value, kind in zip(row, table.dtypes, strict=True):
                assert value is None or type(value) is kind


def test_empty_is_empty():
    """A clean cell has no attack and no delta, an unranked row no rank; a truth is yes or no."""
    clean = next(row for row in read(made()["cells"]) if not row["attack"])
    assert {clean[name] for name in ("attack_team", "attack_baseline", "delta", "delta_low")} == {""}
    assert {row["baseline"] for row in read(made()["boards"])} == {"yes", "no"}
    assert any(not row["rank"] for row in read(made()["boards"]))


def test_no_text_is_a_formula():
    """Names that a spreadsheet would run are guarded, and control characters are escaped, in each table."""
    parts = results_of().model_dump()["submissions"]
    hostile = [{**part, "team": "=cmd()\x1b\n", "name": "@SUM"} for part in parts]
    for table in made(submissions=hostile).values():
        text = tables.table_csv(table)
        assert "'=cmd()\\x1b\\n" in text
        assert not re.search(r"(^|,)[=@+]", text, re.MULTILINE)
        assert text.count("\n") == len(table.rows) + 1


def test_parquet_holds_the_same():
    """What is read back has the columns, their types and every value, nulls where cells are empty."""
    pq = pytest.importorskip("pyarrow.parquet")
    for table in made().values():
        back = pq.read_table(BytesIO(parquet.table_parquet(table)))
        assert back.column_names == list(table.columns)
        assert [tuple(row.values()) for row in back.to_pylist()] == list(table.rows)
        kinds = {"string": str, "int64": int, "double": float, "bool": bool}
        assert tuple(kinds[str(field.type)] for field in back.schema) == table.dtypes


def test_an_empty_table_is_a_file_too():
    """A round in which nothing was played has its columns and no row."""
    pq = pytest.importorskip("pyarrow.parquet")
    table = made(cells=[])["cells"]
    back = pq.read_table(BytesIO(parquet.table_parquet(table)))
    assert (back.num_rows, back.column_names) == (0, list(table.columns))


def test_without_the_library_the_remedy_is_said(monkeypatch):
    """Where pyarrow is missing the message names the extra that brings it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'sparring\[parquet\]'"):
        parquet.require_pyarrow()


def test_reasons_are_counted_in_one_cell():
    """Why candidates do not count is told like endings: so many, and why; empty where nothing was counted."""
    parts = results_of().model_dump()["submissions"]
    told = [
        {**part, "forfeit_reasons": {"missing": 8, "shape": 16} if part["id"] == "square" else {}} for part in parts
    ]
    rows = {row["submission"]: row["forfeit_reasons"] for row in read(made(submissions=told)["submissions"])}
    assert rows.pop("square") == "8 missing 16 shape"
    assert set(rows.values()) == {""} == {row["forfeit_reasons"] for row in read(made()["submissions"])}
