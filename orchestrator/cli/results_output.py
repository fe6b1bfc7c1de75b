"""Boards, matrix and progress on a terminal."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from orchestrator.application.contests import rejudging
from orchestrator.application.contests.rejudging import RejudgedRound
from orchestrator.application.rounds.play_rounds import ReportPaths
from orchestrator.cli import console, replay_output
from orchestrator.cli.console import err, out, safe_text
from orchestrator.domain import events
from orchestrator.reports import formatting
from orchestrator.scoring.results_file import ColumnPart, LeaderboardPart, Results, RowPart, ValuePart


class ProgressWatch:
    """Sees the events of a round: a bar moves with them, and it is counted how much was played."""

    def __init__(self, bar: Progress) -> None:
        self._bar, self._task = bar, bar.add_task("playing", total=None)
        self.steps_played = 0
        """So many were played."""

    def __call__(self, event: events.Event) -> None:
        """Takes notice of an event."""
        if isinstance(event, events.PlanMade):
            self._bar.update(self._task, total=len(event.jobs))
        elif isinstance(event, events.JobFinished):
            description = f"{event.stage} {safe_text(event.submission, 40)}"
            self._bar.update(self._task, advance=1, description=description)
        elif isinstance(event, events.StepFinished):
            self.steps_played += 1


@contextmanager
def progress_bar() -> Iterator[ProgressWatch]:
    """Shows a bar of finished jobs on stderr while a round is played; gives the watch that moves it."""
    with open_bar() as bar:
        yield ProgressWatch(bar)


def open_bar() -> Progress:
    """Returns a bar on stderr that is gone afterwards, and is not shown where stderr is no terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def print_if_idle(documents: list[Results], watched: ProgressWatch) -> None:
    """Says so where a command found everything finished."""
    if not watched.steps_played and all(document.complete for document in documents):
        out.print("complete, nothing was played: these are the results as they were", soft_wrap=True)


DATED_WIDTH = 140
"""Columns that a terminal has to have for the dates of submissions, which the page shows always."""
WIDE_BOARD = 8
"""A board with more columns of its own is printed as several tables."""
MOST_COLUMNS = 6
"""So many of these columns are in one table at most."""


def print_results(document: Results, folder: Path | None = None) -> None:
    """Prints the boards, the matrix and what a reader has to know. `folder` is where the round lies."""
    print_alarms(document)
    for board in document.boards:
        better = "more is better" if board.more_is_better else "less is better"
        out.print(f"[bold]{board.title}[/]: {safe_text(board.measure)}, in {board.unit}, {better}", soft_wrap=True)
        for table in _leaderboard_tables(board, document):
            out.print(table)
    if document.queries:
        meaning = "success is a picture that the defence misread at a query within the budget, or when it was judged"
        out.print(f"[bold]Queries[/]: {meaning}", soft_wrap=True)
        out.print(_queries_table(document))
    out.print("[bold]Accuracy in %[/]")
    for table in _matrix_tables(document):
        out.print(table)
    replay_output.print_coverage(document)
    replay_output.print_findings(document, folder)
    for note in document.notes:
        out.print(f"[yellow]note:[/] {safe_text(note)}", soft_wrap=True)


def print_alarms(document: Results, indent: str = "") -> None:
    """Prints what has to be mended before the boards mean anything, and who waits for another run."""
    for alarm in document.alarms:
        out.print(f"{indent}[bold red]alarm:[/] {safe_text(alarm, 600)}", soft_wrap=True)
    for part in document.waiting:
        reason = f"{part.stage} {part.code}: {safe_text(part.message, 1000)}"
        out.print(f"{indent}[bold red]waits:[/] {safe_text(part.submission)}, {reason}", soft_wrap=True)


def print_season(documents: list[Results], *, as_json: bool) -> None:
    """Prints the results of several tasks, one after another, or as one JSON document."""
    if as_json:
        console.print_json([document.model_dump(mode="json") for document in documents])
        return
    for document in documents:
        out.rule(f"{safe_text(document.task.name)}, {safe_text(document.round)} round")
        print_results(document)


def print_rejudged(one: RejudgedRound) -> None:
    """Prints what changes on every board of one round, and of the first round who would go on."""
    out.rule(f"{safe_text(one.task)}, {safe_text(one.round)} round")
    document = rejudged_document(one)
    for change in document["rows"]:
        before, after = (_rank_text(change[when]) for when in ("before", "after"))
        out.print(
            f"{safe_text(change['board'])}: {safe_text(change['submission'])}: {before} -> {after}", soft_wrap=True
        )
    if not document["rows"]:
        out.print("every row stays as it is")
    if one.outcome_before != one.outcome_after:
        for when, outcome in (("before", one.outcome_before), ("after", one.outcome_after)):
            outcome_text = (
                "; ".join(f"{part} {text}" for part, text in outcome.summary().items()) if outcome else "nobody"
            )
            out.print(f"would go on {when}: {safe_text(outcome_text, 2000)}", soft_wrap=True)


def rejudged_document(one: RejudgedRound) -> dict[str, Any]:
    """Returns the rows that differ under other rules; of the first round also who would go on before and after."""
    rows = [
        {
            "board": change.board,
            "submission": change.submission,
            "before": _row_summary(change.before),
            "after": _row_summary(change.after),
        }
        for change in rejudging.changed_rows(one)
    ]
    outcomes = {
        when: found.model_dump(mode="json", exclude={"kind", "actor", "task", "reason"})
        for when, found in (("before", one.outcome_before), ("after", one.outcome_after))
        if found is not None
    }
    return {"task": one.task, "round": one.round, "rows": rows, "promoted": outcomes or None}


def _row_summary(row: RowPart | None) -> dict[str, Any]:
    """Returns where a row stands; without one, that there is no such board."""
    if row is None:
        return {"rank": None, "score": None, "reason": "no such board"}
    return {"rank": row.rank, "score": row.score, "reason": row.reason}


def _rank_text(row: dict[str, Any]) -> str:
    score = "no score" if row["score"] is None else f"{row['score']:.2f}"
    return f"rank {row['rank']}, {score}" if row["rank"] else f"unranked, {score} ({safe_text(row['reason'])})"


def print_paths(reported: ReportPaths) -> None:
    """Prints where the results were written."""
    out.print(f"results  {safe_text(str(reported.results_file))}", soft_wrap=True)
    out.print(f"cells    {safe_text(str(reported.cells_file))}", soft_wrap=True)
    out.print(f"report   {safe_text(str(reported.report_file))}", soft_wrap=True)


def _leaderboard_tables(board: LeaderboardPart, document: Results) -> list[Table]:
    """Returns a board as one table, or as several where it has more columns than a terminal shows."""
    if len(board.columns) <= WIDE_BOARD:
        return [_leaderboard_table(board, document, board.columns)]
    count = len(board.columns)
    size = ceil(count / ceil(count / MOST_COLUMNS))
    parts = [board.columns[at : at + size] for at in range(0, count, size)]
    return [_leaderboard_table(board, document, []), *(_values_table(board, columns) for columns in parts)]


def _leaderboard_table(board: LeaderboardPart, document: Results, columns: Sequence[ColumnPart]) -> Table:
    teams = {submission.id: submission.team for submission in document.submissions}
    dates = {submission.id: submission.submitted[:10] for submission in document.submissions}
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("rank", justify="right")
    table.add_column("submission", overflow="fold")
    table.add_column("team", overflow="fold")
    table.add_column("score", justify="right")
    table.add_column("95 %", justify="right")
    table.add_column("could be", justify="right")
    for column in columns:
        table.add_column(safe_text(column.title.lower()), justify="right")
    dated = out.width >= DATED_WIDTH and any(dates.get(row.submission) for row in board.rows)
    if dated:
        table.add_column("date")
    table.add_column("remarks", overflow="fold")
    for row in board.rows:
        table.add_row(
            str(row.rank or "-"),
            safe_text(row.submission),
            safe_text(teams.get(row.submission, "")),
            "-" if row.score is None else f"{row.score:.2f}",
            "" if row.interval is None else "{:.1f} to {:.1f}".format(*row.interval),
            "" if row.ranks is None else _rank_range(*row.ranks),
            *(_value_text(row.values.get(column.name), column.unit) for column in columns),
            *([safe_text(dates.get(row.submission, ""))] if dated else []),
            safe_text(row.reason or row.remark or (row.no_prize and f"no prize: {row.no_prize}")),
            style=None if row.rank else "dim",
        )
    return table


def _values_table(board: LeaderboardPart, columns: Sequence[ColumnPart]) -> Table:
    """Returns some of a board's own columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("submission", overflow="fold")
    for column in columns:
        table.add_column(safe_text(column.title.lower()), justify="right")
    for row in board.rows:
        values = (_value_text(row.values.get(column.name), column.unit) for column in columns)
        table.add_row(safe_text(row.submission), *values, style=None if row.rank else "dim")
    return table


def _queries_table(document: Results) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("attack", "defence"):
        table.add_column(name, overflow="fold")
    for name in ("success", "95 %", "median queries", "queries"):
        table.add_column(name, justify="right")
    for part in document.queries:
        table.add_row(
            safe_text(part.attack),
            safe_text(part.defence),
            f"{100 * part.success:.1f}",
            "{:.1f} to {:.1f}".format(*(100 * limit for limit in part.success_interval)),
            "more" if part.median is None else f"{part.median:,}",
            f"{part.queries:,}",
        )
    return table


def _value_text(part: ValuePart | None, unit: str) -> str:
    return "" if part is None else formatting.number(part.value, unit)


def _rank_range(best: int, worst: int) -> str:
    return str(best) if best == worst else f"{best} to {worst}"


def _matrix_tables(document: Results) -> Iterator[Table]:
    """Yields the matrix, a row for each attack as on the pages; as several tables where one is too wide."""
    attacks = list(dict.fromkeys(cell.attack for cell in document.cells))
    defences = list(dict.fromkeys(cell.defence for cell in document.cells))
    texts = {
        (cell.attack, cell.defence): "not played" if cell.not_played else f"{100 * cell.accuracy:.1f}"
        for cell in document.cells
    }
    first = ["attack", *(safe_text(attack or "clean") for attack in attacks)]
    others = [[safe_text(defence), *(texts.get((attack, defence), "-") for attack in attacks)] for defence in defences]
    for columns in _fitting(others, out.width - _column_width(first)):
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column(first[0], overflow="fold")
        for column in columns:
            table.add_column(column[0], justify="right", overflow="fold")
        for row in list(zip(first, *columns, strict=True))[1:]:
            table.add_row(*row)
        yield table


def _column_width(column: Sequence[str]) -> int:
    """Returns the width of a column in characters of the terminal, with the space beside it."""
    return max(map(cell_len, column)) + 2


def _fitting(columns: Sequence[Sequence[str]], width: int) -> Iterator[Sequence[Sequence[str]]]:
    """Yields the columns in groups of at most this width; a column that is wider is a group of its own."""
    group: list[Sequence[str]] = []
    for column in columns:
        if group and sum(map(_column_width, [*group, column])) > width:
            yield group
            group = []
        group.append(column)
    if group:
        yield group
