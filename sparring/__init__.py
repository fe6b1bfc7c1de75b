"""The Python API of Sparring: read what a contest gave, play a round, test a player, write a plug-in.

    import pandas, sparring

    found = sparring.load("demo")
    pandas.DataFrame(found.cells)

`sparring.testing` calls a player in a test; `sparring.plugins` has what plug-ins implement. Every other module of this
distribution is an implementation that may change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from orchestrator import __version__, logs
from orchestrator.application.rounds import play_rounds
from orchestrator.domain.events import Event
from orchestrator.errors import SparringError, UsageError
from orchestrator.intake.contest_file import Contest
from orchestrator.reports import tables
from orchestrator.reports.tables import Table
from orchestrator.scoring.results_file import Results

__all__ = ["Columns", "ContestResults", "SparringError", "__version__", "load", "play_round"]

Columns = dict[str, list[str | int | float | bool | None]]
"""A table by its columns, all of one length: what `pandas.DataFrame` and `polars.DataFrame` take. None is empty."""


@dataclass(frozen=True)
class ContestResults:
    """What one or more rounds gave."""

    rounds: tuple[Results, ...]
    """The results of each round and task, as results.json has them."""
    cells: Columns
    """One row for each attack against each defence: counts, accuracy, intervals."""
    boards: Columns
    """One row for each line of each leaderboard: rank, score, intervals."""
    submissions: Columns
    """One row for each submission: team, status, faults, resources."""


def load(path: str | Path) -> ContestResults:
    """Returns the results in a results.json, a round's folder, a contest's folder, or a published bundle.

    A bundle is read, and not verified: `sparring verify` does that.

    Raises:
        UsageError: there are no results at the path, or another version of this software wrote them.
    """
    path = Path(path)
    files = [path] if path.is_file() else [path / "results.json"]
    if path.is_dir() and not files[0].exists():
        files = sorted(path.glob("rounds/*/*/results.json"))
    try:
        return _tabulate([Results.model_validate_json(file.read_bytes()) for file in files], path)
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be read: {error.strerror}; give results.json, or the folder with it"
        ) from error
    except ValueError as error:
        raise UsageError(f"{path} has no results of this version of Sparring: {error}") from error


def play_round(
    contest: str | Path,
    out: str | Path,
    *,
    backend: str = "process",
    slots: int | None = None,
    allow_unisolated: bool = False,
    watch: Callable[[Event], None] = lambda _: None,
) -> ContestResults:
    """Plays the round of a contest file into a folder, or what is left of it, and returns its results.

    Warnings go to standard error, and nothing else is printed, unless the program has configured structlog itself.

    Args:
        contest: the contest file.
        out: the round's folder; it is made.
        backend: where players run: `process`, `docker`, `runc` or `container`.
        slots: how many jobs are played at once; as many as the cores allow where it is None.
        allow_unisolated: whether strangers' submissions may be played on the backend `process`.
        watch: is told each event of the round.

    Raises:
        SparringError: one of the errors that `sparring round run` ends with.
    """
    if not structlog.is_configured():
        logs.configure_logging(quiet=True)
    options = play_rounds.RunOptions(backend=backend, slots=slots, allow_unisolated=allow_unisolated)
    played = play_rounds.play_round(Contest(Path(contest)), Path(out), options, watch)
    return _tabulate([played.results], Path(out))


def _tabulate(rounds: list[Results], path: Path) -> ContestResults:
    if not rounds:
        raise UsageError(f"there are no results in {path}; play a round first, or give another folder")
    cells, boards, submissions = map(_columns, tables.contest_tables(rounds))
    return ContestResults(tuple(rounds), cells, boards, submissions)


def _columns(table: Table) -> Columns:
    return {name: [row[place] for row in table.rows] for place, name in enumerate(table.columns)}
