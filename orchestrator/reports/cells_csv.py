"""Writes `cells.csv`, with one row for each cell, for spreadsheets and data frames."""

import csv
import re
from io import StringIO
from typing import Final

from orchestrator.domain.text import printable
from orchestrator.scoring.results_file import Results

HEADER: Final = (
    "defence",
    "defence_team",
    "defence_baseline",
    "attack",
    "attack_team",
    "attack_baseline",
    "total",
    "held",
    "fooled",
    "abstained",
    "forfeits",
    "faults",
    "not_played",
    "accuracy",
    "delta",
)
"""The columns. Those of the attack are empty for clean pictures; `accuracy` is 0 to 1, `delta` in percentage points."""

_FORMULA = re.compile(
    "(^|[;,|\"'])(\\s*)([=+\\-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}"
    "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}])"
)


def render_cells_csv(results: Results) -> str:
    """Returns the text of the file, in the order of the cells, with line feeds as line ends, without pending cells."""
    by_id = {submission.id: submission for submission in results.submissions}

    def who(submission_id: str | None) -> tuple[str, str, str]:
        if submission_id is None:
            return ("", "", "")
        found = by_id.get(submission_id)
        if found is None:
            return (escape_formula(submission_id), "", "")
        return (escape_formula(submission_id), escape_formula(found.team), "yes" if found.baseline else "no")

    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for cell in results.cells:
        counts = (cell.total, cell.held, cell.fooled, cell.abstained, cell.forfeits, cell.faults, cell.not_played)
        delta = "" if cell.delta is None else cell.delta
        writer.writerow((*who(cell.defence), *who(cell.attack), *counts, cell.accuracy, delta))
    return out.getvalue()


def escape_formula(text: str) -> str:
    """Returns a text escaped so that no spreadsheet takes it for a formula.

    Writes control characters as escapes. Puts an apostrophe before `=`, `+`, `-`, `@` and their wide forms wherever a
    cell could begin, also for a reader that separates cells by commas, semicolons or bars, or ignores quotes.
    """
    return _FORMULA.sub(r"\1\2'\3", printable(text))
