"""`sparring evaluate`: a defence's row of a warm-up, on the participant's own machine."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from orchestrator import resources
from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.application.submissions import evaluate as evaluation
from orchestrator.application.submissions.evaluate import Evaluation, EvaluationProgress, EvaluationReport
from orchestrator.cli import console, output_paths, replay_output, report, results_output
from orchestrator.cli.console import Backend, ExitCode, Json, out, safe_text
from orchestrator.domain import events
from orchestrator.errors import Cancelled
from orchestrator.execution.round_runner import EventCallback
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import contest_file
from orchestrator.reports import formatting
from orchestrator.scoring.results_file import RowPart, ValuePart

SHIPPED_CONTEST = ("examples", "warmup", "contest.yaml")


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """Options of an evaluation: the contest, the pictures, and where to play."""

    contest: Annotated[
        Path | None,
        typer.Option("--contest", help="The contest file its organizers gave you; default: a shipped warm-up."),
    ] = None
    task: Annotated[str | None, typer.Option("--task", help="The task; required if there are several.")] = None
    pictures: Annotated[
        int | None, typer.Option("--pictures", min=1, help="Play only this number of pictures, the first ones.")
    ] = None
    backend: Backend = "process"
    slots: Annotated[
        int | None,
        typer.Option("--slots", min=1, help="Jobs at the same time; default: as many as cores or GPUs allow."),
    ] = None
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", help="Keep the round in this folder, so that the same command can continue it."),
    ] = None

    def read_contest(self) -> Contest:
        """Returns the contest. Raises UsageError if there is no such file."""
        return Contest(contest_file(self.contest or resources.resource_path(*SHIPPED_CONTEST)))


@console.command
def evaluate(
    path: Annotated[Path, typer.Argument(help="The folder of a defence, with its submission.yaml.", metavar="PATH")],
    options: EvaluateOptions = EvaluateOptions(),
    as_json: Json = False,
) -> None:
    """Print the row that a defence would have in a warm-up, played with the same code as the organizers' (B7).

    Its pictures are the contest's public ones, where the contest file has some. Exits with 1 when the defence
    committed a fault.
    """
    if options.out_dir is not None:
        output_paths.require_folder_path(options.out_dir, "--out")
    wanted = evaluation.prepare_evaluation(path, options.read_contest(), options.task, options.pictures)
    console.quiet_logs()
    console.note_unisolated(options.backend)
    with _round_folder(options.out_dir) as folder:
        progress = EvaluationProgress(wanted, folder)
        # It is the participant's own code.
        run_options = RunOptions(options.backend, options.slots, allow_unisolated=True)
        with _show(progress) as watch:
            found = evaluation.evaluate(wanted, folder, run_options, watch)
    if as_json:
        console.print_json(_document(wanted, found, options.out_dir))
    else:
        _print_report(wanted, found, options.out_dir)
        if options.out_dir is not None and not progress.steps_played:
            out.print("nothing was left to play: this is the row as it was", soft_wrap=True)
    if found.faults:
        raise typer.Exit(ExitCode.FAILED)


@contextmanager
def _round_folder(kept: Path | None) -> Iterator[Path]:
    """Gives the folder of the round: `kept`, or a temporary one that is removed on exit."""
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="sparring-evaluate-") as place:
        try:
            yield Path(place) / "round"
        except (Cancelled, KeyboardInterrupt):
            raise Cancelled("nothing was kept; with --out DIR the same command would continue") from None


@contextmanager
def _show(progress: EvaluationProgress) -> Iterator[EventCallback]:
    """Shows a progress bar of steps and queries on stderr; yields the callback that takes the round's events."""
    with results_output.open_bar() as bar:
        task = bar.add_task("playing", total=None)

        def watch(event: events.Event) -> None:
            progress(event)
            done, total = progress.steps
            asked, left = progress.queries
            text = f"{asked:,} queries, at most {left:,} left; steps"
            bar.update(task, completed=done, total=total, description=text)

        yield watch


def _print_report(wanted: Evaluation, found: EvaluationReport, kept: Path | None) -> None:
    kind = "public pictures" if wanted.is_public else "pictures"
    head = f"[bold]{safe_text(wanted.name)}[/] on {len(wanted.samples):,} {kind} of {safe_text(wanted.task)}"
    out.print(f"{head}: accuracy at 80 % coverage, in percent", soft_wrap=True)
    out.print(_accuracy_table(found))
    if not found.readings_differ:
        out.print("the readings `exact` and `reference` of `coverage` agree", soft_wrap=True)
    for column in found.columns:
        if column.unit != evaluation.ACCURACY_UNIT:
            text = f"{formatting.number(found.row.values[column.name].value) or '-'} {column.unit}"
            out.print(f"{_column_text(column.name)}: {text} {column.measure}", soft_wrap=True)
    if found.row.reason:
        out.print(f"[yellow]not ranked:[/] {safe_text(found.row.reason)}", soft_wrap=True)
    if found.row.remark:
        out.print(f"[yellow]remark:[/] {safe_text(found.row.remark)}", soft_wrap=True)
    for fault in found.faults:
        what = f"{fault.code}, {fault.times} times, {fault.pictures} pictures charged"
        out.print(f"[bold red]fault:[/] {what}: {safe_text(fault.message, 1000)}", soft_wrap=True)
    if found.faults:
        out.print(
            "remedy: `sparring submission check` shows the conversation and the end of standard error", soft_wrap=True
        )
    replay_output.print_findings(found.results, kept)
    for note in (*found.results.notes, *wanted.notes):
        console.print_sentences(out, f"[yellow]note:[/] {safe_text(note, 600)}")
    if kept is not None:
        report.print_paths(found.paths)


def _accuracy_table(found: EvaluationReport) -> Table:
    """Returns a table of accuracies: clean, under each attack, and the worst; by both readings if they differ."""
    rows = {found.reading.value: found.by_reading[found.reading]}
    if found.readings_differ:
        rows |= {reading.value: row for reading, row in found.by_reading.items()}
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("pictures")
    for reading in rows:
        table.add_column(f"{reading}, the contest's" if reading == found.reading else reading, justify="right")
        table.add_column("95 %", justify="right")
    for column in found.columns:
        if column.unit == evaluation.ACCURACY_UNIT:
            cells = [text for row in rows.values() for text in _value_texts(row.values[column.name])]
            table.add_row(_column_text(column.name), *cells)
    cells = [text for row in rows.values() for text in (_percent_text(row.score), _interval_text(row.interval))]
    table.add_row("score: the worst", *cells, style="bold")
    return table


def _column_text(name: str) -> str:
    return name.replace("_", " ")


def _value_texts(value: ValuePart) -> tuple[str, str]:
    return _percent_text(value.value), _interval_text(value.interval)


def _percent_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _interval_text(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else "{:.1f} to {:.1f}".format(*interval)


def _document(wanted: Evaluation, found: EvaluationReport, kept: Path | None) -> dict[str, Any]:
    """Returns the row as `results.json` has it, the row by each reading, and notes for the reader."""
    accuracies = [column.name for column in found.columns if column.unit == evaluation.ACCURACY_UNIT]
    return {
        "submission": wanted.name,
        "contest": found.results.contest,
        "task": wanted.task,
        "pictures": {"played": len(wanted.samples), "available": wanted.available, "public": wanted.is_public},
        "coverage": found.reading.value,
        "columns": [column.model_dump(mode="json") for column in found.columns],
        "row": found.row.model_dump(mode="json"),
        "readings": {reading.value: _reading(row, accuracies) for reading, row in found.by_reading.items()},
        "faults": [fault.model_dump(mode="json") for fault in found.faults],
        "findings": [finding.model_dump(mode="json") for finding in found.results.findings],
        "notes": [*found.results.notes, *wanted.notes],
        "out": None if kept is None else str(kept),
    }


def _reading(row: RowPart, accuracies: list[str]) -> dict[str, Any]:
    parts = {name: row.values[name].model_dump(mode="json") for name in accuracies}
    return {"score": row.score, "interval": row.interval, "values": parts}
