"""A contest's numbers as three tables for spreadsheets and data frames: cells, boards, submissions; and `cells.csv`.

Rows are in the order of the results. A column has one type; None is an empty cell. Lines of CSV end with a line feed.
"""

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import StringIO
from typing import Any, Final, Generic, TypeVar

from orchestrator.domain.text import printable
from orchestrator.scoring.results_file import CellPart, LeaderboardPart, Results, RowPart, SubmissionPart

_FORMULA = re.compile(
    "(^|[;,|\"'])(\\s*)([=+\\-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}"
    "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}])"
)
Value = str | int | float | bool | None
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """A column: its name, its type, and the function that returns a row's value."""

    name: str
    dtype: type
    value_of: Callable[[R], Value]


@dataclass(frozen=True)
class Table:
    """A table. `dtypes` are the columns' types: str, int, float or bool."""

    name: str
    columns: tuple[str, ...]
    dtypes: tuple[type, ...]
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class _CellRow:
    results: Results
    part: CellPart
    defence: SubmissionPart | None
    attack: SubmissionPart | None


@dataclass(frozen=True, slots=True)
class _LeaderboardRow:
    results: Results
    board: LeaderboardPart
    part: RowPart
    submission: SubmissionPart | None


@dataclass(frozen=True, slots=True)
class _SubmissionRow:
    results: Results
    part: SubmissionPart


CELLS: Final[tuple[Column[_CellRow], ...]] = (
    Column("task", str, lambda row: row.results.task.name),
    Column("round", str, lambda row: row.results.round),
    Column("defence", str, lambda row: row.part.defence),
    Column("defence_team", str, lambda row: row.defence.team if row.defence else None),
    Column("defence_baseline", bool, lambda row: row.defence.baseline if row.defence else None),
    Column("attack", str, lambda row: row.part.attack),
    Column("attack_team", str, lambda row: row.attack.team if row.attack else None),
    Column("attack_baseline", bool, lambda row: row.attack.baseline if row.attack else None),
    Column("total", int, lambda row: row.part.total),
    Column("held", int, lambda row: row.part.held),
    Column("fooled", int, lambda row: row.part.fooled),
    Column("abstained", int, lambda row: row.part.abstained),
    Column("forfeits", int, lambda row: row.part.forfeits),
    Column("faults", int, lambda row: row.part.faults),
    Column("not_played", int, lambda row: row.part.not_played),
    Column("accuracy", float, lambda row: row.part.accuracy),
    Column("accuracy_low", float, lambda row: row.part.accuracy_interval[0]),
    Column("accuracy_high", float, lambda row: row.part.accuracy_interval[1]),
    Column("delta", float, lambda row: row.part.delta),
    Column("delta_low", float, lambda row: _limit(row.part.delta_interval, 0)),
    Column("delta_high", float, lambda row: _limit(row.part.delta_interval, 1)),
)
ROUND_CELLS: Final = tuple(
    each for each in CELLS if each.name not in ("task", "round") and not each.name.endswith(("_low", "_high"))
)
"""The columns of `cells.csv` of one round. `accuracy` is 0 to 1, `delta` in percentage points."""
LEADERBOARDS: Final[tuple[Column[_LeaderboardRow], ...]] = (
    Column("task", str, lambda row: row.results.task.name),
    Column("round", str, lambda row: row.results.round),
    Column("board", str, lambda row: row.board.name),
    Column("unit", str, lambda row: row.board.unit),
    Column("more_is_better", bool, lambda row: row.board.more_is_better),
    Column("submission", str, lambda row: row.part.submission),
    Column("team", str, lambda row: row.submission.team if row.submission else None),
    Column("baseline", bool, lambda row: row.submission.baseline if row.submission else None),
    Column("rank", int, lambda row: row.part.rank),
    Column("rank_best", int, lambda row: row.part.ranks[0] if row.part.ranks else None),
    Column("rank_worst", int, lambda row: row.part.ranks[1] if row.part.ranks else None),
    Column("score", float, lambda row: row.part.score),
    Column("score_low", float, lambda row: _limit(row.part.interval, 0)),
    Column("score_high", float, lambda row: _limit(row.part.interval, 1)),
    Column("prize_rank", int, lambda row: row.part.prize_rank),
    Column("no_prize", str, lambda row: row.part.no_prize or None),
    Column("reason", str, lambda row: row.part.reason or None),
    Column("remark", str, lambda row: row.part.remark or None),
)
SUBMISSIONS: Final[tuple[Column[_SubmissionRow], ...]] = (
    Column("task", str, lambda row: row.results.task.name),
    Column("round", str, lambda row: row.results.round),
    Column("submission", str, lambda row: row.part.id),
    Column("name", str, lambda row: row.part.name),
    Column("team", str, lambda row: row.part.team),
    Column("side", str, lambda row: row.part.side.value),
    Column("baseline", bool, lambda row: row.part.baseline),
    Column("image", str, lambda row: row.part.image),
    Column("status", str, lambda row: row.part.status),
    Column("findings", int, lambda row: len(row.part.findings)),
    Column("forfeits", int, lambda row: row.part.forfeits),
    Column("forfeit_reasons", str, lambda row: _counts_text(row.part.forfeit_reasons)),
    Column("violations", int, lambda row: row.part.violations),
    Column("faults", int, lambda row: sum(fault.pictures for fault in row.part.faults)),
    Column("fault_codes", str, lambda row: " ".join(sorted({fault.code for fault in row.part.faults})) or None),
    Column("sandboxes", int, lambda row: row.part.sandboxes),
    Column("endings", str, lambda row: _counts_text(row.part.endings)),
    Column("seconds", float, lambda row: row.part.seconds),
    Column("cpu_seconds", float, lambda row: row.part.cpu_seconds),
    Column("peak_bytes", int, lambda row: row.part.peak_bytes),
    Column("bytes_in", int, lambda row: row.part.bytes_in),
    Column("bytes_out", int, lambda row: row.part.bytes_out),
)


def contest_tables(rounds: Sequence[Results]) -> tuple[Table, Table, Table]:
    """Returns cells, boards and submissions of all rounds."""
    cells: list[_CellRow] = []
    rows: list[_LeaderboardRow] = []
    submissions: list[_SubmissionRow] = []
    for results in rounds:
        by_id = {part.id: part for part in results.submissions}
        cells += _cell_rows(results, by_id)
        rows += [_LeaderboardRow(results, b, row, by_id.get(row.submission)) for b in results.boards for row in b.rows]
        submissions += [_SubmissionRow(results, part) for part in results.submissions]
    return (
        _table("cells", CELLS, cells),
        _table("boards", (*LEADERBOARDS, *_declared_columns(rounds)), rows),
        _table("submissions", SUBMISSIONS, submissions),
    )


def cells_csv(results: Results) -> str:
    """Returns `cells.csv` of a round: a row for each cell, in their order; of clean pictures, the attack is empty."""
    rows = _cell_rows(results, {part.id: part for part in results.submissions})
    return table_csv(_table("cells", ROUND_CELLS, rows))


def _cell_rows(results: Results, by_id: Mapping[str, SubmissionPart]) -> list[_CellRow]:
    return [_CellRow(results, each, by_id.get(each.defence), by_id.get(each.attack or "")) for each in results.cells]


def _declared_columns(rounds: Sequence[Results]) -> list[Column[_LeaderboardRow]]:
    """Returns the columns that boards have beside the score, each once, with its limits if any row has an interval."""
    boards = [board for results in rounds for board in results.boards]
    columns: list[Column[_LeaderboardRow]] = []
    for name in dict.fromkeys(column.name for board in boards for column in board.columns):
        parts = [row.values[name] for board in boards for row in board.rows if name in row.values]
        integral = all(part.value is None or (part.value.is_integer() and not part.interval) for part in parts)
        columns.append(
            Column(name, int if integral else float, partial(_declared_value, name, int if integral else float))
        )
        if any(part.interval for part in parts):
            columns += [Column(f"{name}_{end}", float, partial(_declared_limit, name, n)) for n, end in _ENDS]
    return columns


_ENDS = ((0, "low"), (1, "high"))


def _declared_value(name: str, dtype: type, row: _LeaderboardRow) -> Value:
    part = row.part.values.get(name)
    return None if part is None or part.value is None else dtype(part.value)


def _declared_limit(name: str, which: int, row: _LeaderboardRow) -> float | None:
    part = row.part.values.get(name)
    return None if part is None else _limit(part.interval, which)


def table_csv(table: Table) -> str:
    """Returns a table as CSV. Texts are escaped so that no spreadsheet takes them for formulas."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([_csv_value(value) for value in row] for row in table.rows)
    return out.getvalue()


def _table(name: str, columns: Sequence[Column[R]], rows: Iterable[R]) -> Table:
    return Table(
        name=name,
        columns=tuple(column.name for column in columns),
        dtypes=tuple(column.dtype for column in columns),
        rows=tuple(tuple(_printable_value(column.value_of(row)) for column in columns) for row in rows),
    )


def _printable_value(value: Value) -> Value:
    return printable(value) if isinstance(value, str) else value


def _csv_value(value: Value) -> Value:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _escape_formula(value) if isinstance(value, str) else value


def _escape_formula(text: str) -> str:
    """Returns a text escaped so that no spreadsheet takes it for a formula.

    Puts an apostrophe before `=`, `+`, `-`, `@` and their wide forms wherever a cell could begin, also for a reader
    that separates cells by commas, semicolons or bars, or ignores quotes.
    """
    return _FORMULA.sub(r"\1\2'\3", text)


def _counts_text(reasons: Mapping[Any, int] | None) -> str | None:
    return " ".join(f"{count} {reason}" for reason, count in (reasons or {}).items()) or None


def _limit(limits: tuple[float, float] | None, which: int) -> float | None:
    return None if limits is None else limits[which]
