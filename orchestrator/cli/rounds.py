"""`sparring round`, `sparring report` and `sparring demo`."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import shipped
from orchestrator.cli import console, found, season, show
from orchestrator.cli.console import Json, out, safe
from orchestrator.domain.plan import Stage
from orchestrator.errors import UsageError
from orchestrator.intake.contest_file import Contest
from orchestrator.results.document import Results
from orchestrator.wiring import rounds, seasons
from orchestrator.wiring.contest_folder import ContestFolder
from orchestrator.wiring.folders import RoundFolder

_DEMO_NEEDS = ("foolbox", "safetensors", "sklearn", "torch")
"""What the demo's baselines import in their own processes."""

app = typer.Typer(no_args_is_help=True, help="Play a round and look at it.")

Out = Annotated[Path, typer.Option("--out", help="Folder for ledger, blobs, results and report.", file_okay=False)]
RoundDir = Annotated[Path, typer.Argument(help="The --out folder of `sparring round run`.", metavar="DIR")]
Backend = Annotated[str, typer.Option("--backend", help="Where players run: process or docker.")]
Slots = Annotated[int | None, typer.Option("--slots", help="Jobs at once; default: what the cores or GPUs allow.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Write logs as JSON lines on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Write every log line on stderr.")]
Unisolated = Annotated[
    bool,
    typer.Option("--allow-unisolated", help="Let strangers' submissions run on the process backend. It is no wall."),
]


@dataclass(frozen=True, slots=True)
class Where:
    """Where players run."""

    backend: Backend = "process"
    slots: Slots = None
    allow_unisolated: Unisolated = False


@dataclass(frozen=True, slots=True)
class Logs:
    """Which logs are written."""

    log_json: LogJson = False
    verbose: Verbose = False


@app.command("run", epilog="Example: sparring round run examples/demo/contest.yaml --out round1 --backend docker")
@console.command
def run(
    contest: Annotated[Path, typer.Argument(help="A contest file, or a contest's folder.", metavar="FILE|DIR")],
    phase: Annotated[str | None, typer.Argument(help="For a folder: the round to play.", metavar="ROUND")] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="For a file: where the round goes.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="For a folder: one task only.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who acts, for the ledger.")] = None,
    where: Where = Where(),
    logs: Logs = Logs(),
    as_json: Json = False,
) -> None:
    """Play every attack against every defence, then rank them.

    A round that was interrupted goes on where it was: run the same command again.
    """
    console.quiet_logs(log_json=logs.log_json, verbose=logs.verbose)
    how = rounds.How(where.backend, where.slots, where.allow_unisolated, announce=found.forecast)
    if contest.is_dir():
        if phase is None or out_dir is not None:
            raise UsageError("for a contest's folder give the round to play, and no --out")
        _play_season(contest, phase, how, task, by, as_json=as_json)
        return
    if phase is not None or out_dir is None:
        raise UsageError("for a contest file give --out, and no round")
    _play(contest, out_dir, how, as_json=as_json)


@app.command("promote", epilog="Example: sparring round promote cup")
@console.command
def promote(folder: season.ContestDir, task: season.Task = None, by: season.By = None, as_json: Json = False) -> None:
    """Say who goes on to the final round, from the boards of the initial one (A4, A11, A12, A16)."""
    season.promote(folder, task, by, as_json=as_json)


@app.command("status", epilog="Example: sparring round status round1")
@console.command
def status(folder: RoundDir, as_json: Json = False) -> None:
    """Show how far a round is, and what went wrong."""
    record, _ = rounds.read(folder)
    document = rounds.results(folder)
    stages = {
        stage.value: {
            "finished": sum(job.status == "finished" for job in document.jobs if job.stage is stage),
            "jobs": sum(1 for job in document.jobs if job.stage is stage),
        }
        for stage in Stage
    }
    retried = [failure.model_dump(exclude={"kind"}) for failure in record.round.failures]
    faulted = [s.id for s in document.submissions if s.faults]
    if as_json:
        console.emit(
            {
                "contest": document.contest,
                "round": document.round,
                "complete": document.complete,
                "stages": stages,
                "retried": retried,
                "faulted": faulted,
                "findings": [finding.id for finding in document.findings],
            }
        )
        return
    state = "complete" if document.complete else "not finished: run `sparring round run` again to go on"
    out.print(f"{safe(document.title)}, {safe(document.round)}: {state}")
    for stage, count in stages.items():
        out.print(f"  {stage:9} {count['finished']} of {count['jobs']} jobs finished")
    for failure in retried:
        out.print(f"  ours, tried again: job {failure['job']}: {safe(str(failure['message']))}")
    for submission in document.submissions:
        for fault in submission.faults:
            out.print(f"  {safe(submission.id)}: {fault.code} on {fault.pictures} pictures: {safe(fault.message)}")
    found.findings(document, folder, indent="  ")


@console.command
def report(folder: RoundDir, as_json: Json = False) -> None:
    """Write results.json, cells.csv and the report again, from the ledger alone.

    For a contest's folder this is done for every round of every task.
    """
    if ContestFolder(folder).exists:
        with seasons.at_desk(folder) as desk:
            every = [rounds.write(target) for target in seasons.played_folders(desk)]
        if not every:
            raise UsageError(f"no round was played in {folder}; run `sparring round run {folder} initial`")
        if as_json:
            console.emit([reported.results.model_dump(mode="json") for reported in every])
            return
        for reported in every:
            show.files(reported)
        return
    target = RoundFolder(folder)
    target.require()
    reported = rounds.write(target)
    if as_json:
        _emit(reported.results)
        return
    show.files(reported)


@console.command
def demo(
    out_dir: Out = Path("demo"),
    backend: Backend = "process",
    slots: Slots = None,
    as_json: Json = False,
    log_json: LogJson = False,
    verbose: Verbose = False,
) -> None:
    """Play a whole tournament on handwritten digits: nine baselines and six submissions, under a minute."""
    console.quiet_logs(log_json=log_json, verbose=verbose)
    missing = [name for name in _DEMO_NEEDS if backend == "process" and importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"the demo's baselines need {', '.join(missing)}; pip install 'sparring[demo]'")
    # The demo's submissions are ours, so the process backend may run them.
    how = rounds.How(backend, slots, allow_unisolated=True, announce=found.forecast)
    _play(shipped.path("examples", "demo", "contest.yaml"), out_dir, how, as_json=as_json)


def _play(contest: Path, out_dir: Path, how: rounds.How, *, as_json: bool) -> None:
    with show.progress() as watch:
        reported = rounds.play(Contest(contest), out_dir, how, watch)
    if as_json:
        _emit(reported.results)
        return
    show.results(reported.results, out_dir)
    show.files(reported)


def _play_season(folder: Path, phase: str, how: rounds.How, task: str | None, by: str | None, *, as_json: bool) -> None:
    with seasons.at_desk(folder, by) as desk, show.progress() as watch:
        played = seasons.play(desk, phase, how, watch, task)
    show.season(played, as_json=as_json)


def _emit(document: Results) -> None:
    console.emit(document.model_dump(mode="json"))
