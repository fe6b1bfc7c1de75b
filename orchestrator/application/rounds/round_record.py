"""Reads a round from its folder: its record, and the results and the report that are made from it.

This module does not import the code that plays rounds: that import takes longer than reading a small round.
"""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from orchestrator import reports
from orchestrator.domain.season import Season
from orchestrator.errors import UsageError
from orchestrator.files import write_pieces
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.ledger.season_fold import fold_season, format_of_round, season_state
from orchestrator.reports import example_choice, tables
from orchestrator.reports.examples import Example
from orchestrator.scoring.results_file import Results, results_json
from orchestrator.scoring.round_scoring import RoundScoring


@dataclass(frozen=True, slots=True)
class ReportPaths:
    """A round's results, the files that were written, and the pictures in its report."""

    results: Results
    results_file: Path
    cells_file: Path
    report_file: Path
    examples: tuple[Example, ...] = ()


def read_round(out: Path) -> tuple[RoundView, str]:
    """Returns the record of the round in a folder, and the hash of its last ledger entry."""
    folder = RoundFolder(out)
    folder.require()
    with closing(folder.ledger()) as ledger:
        return RoundView(folder.blobs(), (entry.event for entry in ledger.read())), ledger.head


def compute_results(out: Path) -> Results:
    """Returns the results of the round in a folder, folded from its ledger."""
    record, head = read_round(out)
    return score_round(record, out).results(head)


def read_results(folder: RoundFolder) -> Results:
    """Returns the results of a round from its results file, or from its ledger while there is no valid file.

    Raises StoreFault if the record is damaged.
    """
    try:
        return Results.model_validate_json(folder.results_path.read_bytes())
    except (FileNotFoundError, ValidationError):  # an event removed it, or another version wrote it
        return compute_results(folder.path)


def write_results(folder: RoundFolder) -> ReportPaths:
    """Folds the ledger and writes cells.csv and report/index.html, and results.json last: if it exists, all exist."""
    with folder.writing():
        return write_results_locked(folder)


def write_results_locked(folder: RoundFolder) -> ReportPaths:
    """Writes like `write_results`, for a caller that already holds the write lock."""
    record, head = read_round(folder.path)
    scoring = score_round(record, folder.path)
    document = scoring.results(head)
    cells = folder.write_file("cells.csv", tables.cells_csv(document))
    examples = tuple(example_choice.choose_examples(record, scoring))
    page = folder.write_file("report/index.html", reports.render_round(document, examples))
    write_pieces(folder.results_path, results_json(document))
    return ReportPaths(document, folder.results_path, cells, page, examples)


def score_round(record: RoundView, out: Path, rules: dict[str, Any] | None = None) -> RoundScoring:
    """Returns the scoring of a round, with the state of its contest's season if it belongs to one.

    `rules` replace the rules that the round was opened with, and those to which its contest changed since. Raises
    UsageError if the round was never opened.
    """
    opening = record.round.opening
    if opening is None:
        raise UsageError(f"the round in {out} was never opened; run it again")
    above = RoundFolder(out).contest_path
    season = None if above is None else _read_season(ContestFolder(above))
    contest_format = format_of_round(opening, season, rules)
    return RoundScoring(
        record, contest_format, None if season is None else season_state(contest_format, season, opening)
    )


def _read_season(contest: ContestFolder) -> Season:
    with closing(contest.ledger()) as ledger:
        return fold_season(ledger.read())
