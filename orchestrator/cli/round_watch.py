"""`sparring round watch`: prints the progress of rounds whenever it changes, until they are complete."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.application.rounds.round_progress import JobCounts
from orchestrator.cli import console, round_status, season
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.errors import UsageError
from orchestrator.ledger.round_folder import RoundFolder


@console.command
def watch(
    folder: Annotated[
        Path, typer.Argument(help="The --out folder of `sparring round run`, or a contest's folder.", metavar="DIR")
    ],
    phase: Annotated[str | None, typer.Option("--round", help="For a contest's folder: only this round.")] = None,
    task: season.OnlyTask = None,
    every: Annotated[float, typer.Option("--every", help="Seconds between two checks.", min=0.1)] = 5.0,
    as_json: Json = False,
) -> None:
    """Print the progress of begun rounds, a line for each change, until they are complete. It changes nothing.

    With --json the document comes when all are complete.
    """
    rounds = [RoundFolder(path) for path in round_status.round_folders(folder, phase, task)]
    if missing := [each.path for each in rounds if not each.exists]:
        raise UsageError(f"there is no round in {missing[0]}; give the --out folder of `sparring round run`")
    seen = []
    for change in watch_rounds(rounds, lambda: time.sleep(every)):
        seen.append(asdict(change) | {"folder": str(change.folder)})
        if not as_json:
            out.print(safe_text(f"{change.time}  {change.folder}: {change.state}", 1000), soft_wrap=True)
    if as_json:
        console.print_json(seen)


@dataclass(frozen=True, slots=True)
class RoundChange:
    """The progress of a round at the time of its last entry, in UTC."""

    time: str
    folder: Path
    state: str


def watch_rounds(rounds: Sequence[RoundFolder], wait: Callable[[], object]) -> Iterator[RoundChange]:
    """Yields the progress of each round, and again whenever it changes, until all are complete.

    Calls `wait` between two readings of the ledgers.
    """
    with ExitStack() as opened:
        waiting = {each.path: (opened.enter_context(closing(each.ledger())), JobCounts(), "") for each in rounds}
        for ledger, counts, _ in waiting.values():
            for entry in ledger.read():
                counts.apply(entry)
        while waiting:
            for path, (ledger, counts, said) in list(waiting.items()):
                for entry in ledger.read_new():
                    counts.apply(entry)
                complete = bool(counts.number) and not counts.began_at
                state = "complete" if complete else f"{counts.finished} of {counts.planned} jobs finished"
                waits = "".join(f"; {job.submission} waits for another run ({job.code})" for job in counts.waiting)
                if state + waits != said:
                    yield RoundChange(counts.last_at, path, state + waits)
                waiting[path] = (ledger, counts, state + waits)
                if complete:
                    del waiting[path]
            if waiting:
                wait()
