"""Prints boards, the matrix and progress on a terminal."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from orchestrator.application.contests import rescoring
from orchestrator.application.contests.rescoring import RescoredRound
from orchestrator.cli import console, replay_output
from orchestrator.cli.console import err, out, safe_text
from orchestrator.cli.tables import Column, fitting_tables
from orchestrator.domain import events
from orchestrator.reports import formatting
from orchestrator.scoring.results_file import ColumnPart, LeaderboardPart, Results, RowPart, ValuePart


class _JobsColumn(MofNCompleteColumn):
    """Finished jobs of all jobs; nothing while they are being planned."""

    def render(self, task: Task) -> Text:
        """Returns the column of a task."""
        return Text() if task.total is None else super().render(task)


class ProgressWatch:
    """Takes the events of a round: moves a progress bar, and counts the steps that were played."""

    def __init__(self, bar: Progress) -> None:
        self._bar, self._task = bar, bar.add_task("planning", total=None)
        self._planned: frozenset[str] = frozenset()
        self._finished: set[str] = set()
        self.steps_played = 0
        """The number of steps that were played."""

    def __call__(self, event: events.Event) -> None:
        """Takes one event."""
        if isinstance(event, events.PlanMade):
            self._planned = frozenset(job.id for job in event.jobs)
            self._show("playing")
        elif isinstance(event, events.JobFinished):
            self._finished.add(event.job)
            self._show(f"{event.stage} {safe_text(event.submission, 40)}")
        elif isinstance(event, events.StepFinished):
            self.steps_played += 1

    def _show(self, description: str) -> None:
        done = len(self._planned & self._finished)
        self._bar.update(self._task, total=len(self._planned), completed=done, description=description)


@contextmanager
def progress_bar() -> Iterator[ProgressWatch]:
    """Shows a bar of finished jobs on stderr while a round is played; yields the watch that moves it."""
    with open_bar() as bar:
        yield ProgressWatch(bar)


def open_bar() -> Progress:
    """Returns a bar on stderr that is erased at the end, and is shown only on a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        _JobsColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def print_if_idle(documents: list[Results], watched: ProgressWatch) -> None:
    """Prints a sentence if a command found everything finished."""
    if not watched.steps_played and all(document.complete for document in documents):
        out.print("complete, nothing was played: these are the results as they were", soft_wrap=True)


DATED_WIDTH = 140
"""The least width in columns at which a terminal shows the dates of submissions; the page always shows them."""
WIDE_BOARD = 8
"""A board with more columns of its own than this is printed as several tables."""
MOST_COLUMNS = 6
"""The most of these columns in one of several tables."""


def print_results(document: Results, folder: Path | None = None) -> None:
    """Prints the boards, the matrix and notes for the reader. `folder` is the round's folder."""
    print_alarms(document)
    for board in document.boards:
        better = "more is better" if board.more_is_better else "less is better"
        out.print(f"[bold]{board.title}[/]: {safe_text(board.measure)}, in {board.unit}, {better}", soft_wrap=True)
        for table in _leaderboard_tables(board, document):
            out.print(table)
    if document.queries:
        meaning = "success is a picture misread or abstained on, at a query within the budget or when it was judged"
        out.print(f"[bold]Queries[/]: {meaning}", soft_wrap=True)
        for table in _queries_tables(document):
            out.print(table)
    out.print("[bold]Accuracy in %[/]")
    for table in _matrix_tables(document):
        out.print(table)
    replay_output.print_coverage(document)
    replay_output.print_findings(document, folder)
    for note in document.notes:
        console.print_sentences(out, f"[yellow]note:[/] {safe_text(note)}")


def print_alarms(document: Results, indent: str = "") -> None:
    """Prints failures that make the boards meaningless until they are corrected, and jobs that wait for another run."""
    for alarm in document.alarms:
        console.print_sentences(out, f"{indent}[bold red]alarm:[/] {safe_text(alarm, 600)}")
    jobs = Counter(
        f"{safe_text(part.submission)}, {part.stage} {part.code}: {safe_text(part.message, 1000)}"
        for part in document.waiting
    )
    for reason, count in jobs.items():
        times = "" if count == 1 else f" ({count} jobs)"
        out.print(f"{indent}[bold red]waits:[/] {reason}{times}", soft_wrap=True)


def print_failed_baselines(documents: list[Results]) -> None:
    """Prints on stderr that the boards mean nothing since baselines failed, and commands that explain the faults."""
    parts = [part for document in documents for part in document.submissions if part.baseline]
    commands = [
        f"`sparring explain {code}`" for code in sorted({fault.code for part in parts for fault in part.faults})
    ]
    remedy = f"; {' and '.join(commands)} say what to do" if commands else ""
    text = f"the leaderboards mean nothing, since baselines failed (see the alarms above them){remedy}"
    console.print_sentences(err, f"[bold red]failed:[/] {text}")


def print_season(documents: list[Results], *, as_json: bool) -> None:
    """Prints the results of several tasks, one after another, or as one JSON document."""
    if as_json:
        console.print_json([document.model_dump(mode="json") for document in documents])
        return
    for document in documents:
        out.rule(f"{safe_text(document.task.name)}, {safe_text(document.round)} round")
        print_results(document)


def print_rescored(one: RescoredRound) -> None:
    """Prints the changes on each board of one round and, for the first round, the changes of the promotion."""
    out.rule(f"{safe_text(one.task)}, {safe_text(one.round)} round")
    document = rescored_document(one)
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


def rescored_document(one: RescoredRound) -> dict[str, Any]:
    """Returns the rows that differ under other rules; for the first round, also the promotion before and after."""
    rows = [
        {
            "board": change.board,
            "submission": change.submission,
            "before": _row_summary(change.before),
            "after": _row_summary(change.after),
        }
        for change in rescoring.changed_rows(one)
    ]
    outcomes = {
        when: found.model_dump(mode="json", exclude={"kind", "actor", "task", "reason"})
        for when, found in (("before", one.outcome_before), ("after", one.outcome_after))
        if found is not None
    }
    return {"task": one.task, "round": one.round, "rows": rows, "promoted": outcomes or None}


def _row_summary(row: RowPart | None) -> dict[str, Any]:
    """Returns a row's rank, score and reason; for None, that there was no such board or row."""
    if row is None:
        return {"rank": None, "score": None, "reason": "no such board"}
    return {"rank": row.rank, "score": row.score, "reason": row.reason}


def _rank_text(row: dict[str, Any]) -> str:
    score = "no score" if row["score"] is None else f"{row['score']:.2f}"
    return f"rank {row['rank']}, {score}" if row["rank"] else f"unranked, {score} ({safe_text(row['reason'])})"


def _leaderboard_tables(board: LeaderboardPart, document: Results) -> list[Table]:
    """Returns a board as one table, or as several if it has more columns than a terminal can show."""
    styles = [None if row.rank else "dim" for row in board.rows]
    name = 1  # the index of the column with the submission's name
    if len(board.columns) <= WIDE_BOARD:
        return list(fitting_tables(_leaderboard_columns(board, document, board.columns), name, styles))
    count = len(board.columns)
    size = ceil(count / ceil(count / MOST_COLUMNS))
    parts = [board.columns[at : at + size] for at in range(0, count, size)]
    return [
        *fitting_tables(_leaderboard_columns(board, document, []), name, styles),
        *(t for some in parts for t in fitting_tables([_names(board), *_value_columns(board, some)], 0, styles)),
    ]


def _leaderboard_columns(board: LeaderboardPart, document: Results, columns: Sequence[ColumnPart]) -> list[Column]:
    teams = {submission.id: submission.team for submission in document.submissions}
    dates = {submission.id: submission.submitted[:10] for submission in document.submissions}
    rows = board.rows
    dated = out.width >= DATED_WIDTH and any(dates.get(row.submission) for row in rows)
    remarks = [row.reason or row.remark or (row.no_prize and f"no prize: {row.no_prize}") for row in rows]
    intervals = ["" if row.interval is None else "{:.1f} to {:.1f}".format(*row.interval) for row in rows]
    return [
        Column("rank", [str(row.rank or "-") for row in rows], is_number=True),
        _names(board),
        Column("team", [safe_text(teams.get(row.submission, "")) for row in rows], is_sentence=True),
        Column("score", ["-" if row.score is None else f"{row.score:.2f}" for row in rows], is_number=True),
        Column("95 %", intervals, is_number=True),
        Column("could be", ["" if row.ranks is None else _rank_range(*row.ranks) for row in rows], is_number=True),
        *_value_columns(board, columns),
        *([Column("date", [safe_text(dates.get(row.submission, "")) for row in rows])] if dated else []),
        Column("remarks", [safe_text(remark or "") for remark in remarks], is_sentence=True),
    ]


def _names(board: LeaderboardPart) -> Column:
    return Column("submission", [safe_text(row.submission) for row in board.rows])


def _value_columns(board: LeaderboardPart, columns: Sequence[ColumnPart]) -> list[Column]:
    """Returns some of a board's own columns."""
    return [
        Column(
            safe_text(column.title.lower()),
            [_value_text(row.values.get(column.name), column.unit) for row in board.rows],
            is_number=True,
        )
        for column in columns
    ]


def _queries_tables(document: Results) -> Iterator[Table]:
    parts = document.queries
    intervals = ["{:.1f} to {:.1f}".format(*(100 * limit for limit in part.success_interval)) for part in parts]
    yield from fitting_tables(
        [
            Column("attack", [safe_text(part.attack) for part in parts]),
            Column("defence", [safe_text(part.defence) for part in parts]),
            Column("success", [f"{100 * part.success:.1f}" for part in parts], is_number=True),
            Column("95 %", intervals, is_number=True),
            Column(
                "median queries",
                ["more" if part.median is None else f"{part.median:,}" for part in parts],
                is_number=True,
            ),
            Column("queries", [f"{part.queries:,}" for part in parts], is_number=True),
        ]
    )


def _value_text(part: ValuePart | None, unit: str) -> str:
    return "" if part is None else formatting.number(part.value, unit)


def _rank_range(best: int, worst: int) -> str:
    return str(best) if best == worst else f"{best} to {worst}"


def _matrix_tables(document: Results) -> Iterator[Table]:
    """Yields the matrix with a row for each attack, as on the pages; as several tables if one would be too wide."""
    attacks = list(dict.fromkeys(cell.attack for cell in document.cells))
    defences = list(dict.fromkeys(cell.defence for cell in document.cells))
    texts = {
        (cell.attack, cell.defence): "not played" if cell.not_played else f"{100 * cell.accuracy:.1f}"
        for cell in document.cells
    }
    yield from fitting_tables(
        [
            Column("attack", [safe_text(attack or "clean") for attack in attacks]),
            *(
                Column(safe_text(defence), [texts.get((attack, defence), "-") for attack in attacks], is_number=True)
                for defence in defences
            ),
        ]
    )
