"""`sparring work`."""

import json
import sys
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from orchestrator.application.contests.worker import CompletedWork, Worker, WorkerSettings
from orchestrator.cli import console, rounds, season
from orchestrator.cli.console import out, safe_text


@dataclass(frozen=True, slots=True)
class WorkOptions:
    """Options of a worker."""

    once: Annotated[bool, typer.Option("--once", help="Do everything that waits, and end.")] = False
    by: Annotated[str, typer.Option("--by", help="The name that records played rounds; bundles publish it.")] = "worker"


@console.command
def work(
    folder: season.ContestDir,
    worker: WorkOptions = WorkOptions(),
    where: rounds.PlayOptions = rounds.PlayOptions(),
    logs: rounds.LogOptions = rounds.LogOptions(),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON document for each thing done, a line each.")
    ] = False,
) -> None:
    """Admit arrivals of a contest, and play the rounds that were requested, until somebody ends the command.

    Several workers may work on one contest. A killed worker loses nothing: run it again, or leave it to the others.
    """
    console.quiet_logs(log_json=logs.log_json, verbose=logs.verbose)
    options = where.run_options(log_json=logs.log_json)
    on_done = _print_line if as_json else _print_done
    Worker(WorkerSettings(folder, options, by=worker.by, once=worker.once, on_done=on_done)).run()


def _print_line(done: CompletedWork) -> None:
    sys.stdout.write(json.dumps(asdict(done)) + "\n")
    sys.stdout.flush()


def _print_done(done: CompletedWork) -> None:
    text = "; ".join(done.text.splitlines())
    out.print(f"{done.what:8} {safe_text(done.id)} {done.outcome}: {safe_text(text, 2000)}", soft_wrap=True)
