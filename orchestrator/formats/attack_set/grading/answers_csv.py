"""Reads a rater's answers from the CSV table that the grading page can save besides the JSON file."""

import csv
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import ValidationError

from orchestrator.domain.field_errors import field_errors
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected
from orchestrator.formats.attack_set.grading.sheets import Answer, AnswerFile

COLUMNS: Final = (
    "plan",
    "rater",
    "token",
    "class_index",
    "proper",
    "grade",
    "milliseconds",
    "device_pixel_ratio",
)
TOKEN_PREFIX: Final = "item-"  # noqa: S105  no secret
"""The prefix of a token: a spreadsheet would take a token such as 12e4567890123456 for a number, and change it."""

_SUBJECT: Final = "table of answers"
_REMEDY: Final = "save the table on the grading page again, or import the JSON file"
_PROPER: Final = {"": None, "yes": True, "no": False}


def read_answers_csv(text: str) -> AnswerFile:
    """Returns the answers of a CSV table that the grading page saved, in its order. Empty cells are None.

    A byte order mark and line ends of any system are accepted. All lines have the same plan and rater.

    Raises:
        Rejected: names every line that the page cannot have saved.
    """
    rows = _rows(text)
    problems: list[Problem] = []
    answers = []
    for number, row in enumerate(rows, start=2):
        try:
            answers.append(_answer(row))
        except ValueError as error:
            problems.append(Problem(f"line {number}", printable(_first_message(error)), _REMEDY))
    problems += [
        Problem(f"column {column}", "it has several values", "import the table of each rater by itself")
        for column in ("plan", "rater")
        if len({row[column] for row in rows}) > 1
    ]
    if problems:
        raise Rejected(_SUBJECT, problems)
    try:
        return AnswerFile(plan=rows[0]["plan"], rater=rows[0]["rater"], answers=answers)
    except ValidationError as error:
        raise Rejected(_SUBJECT, [Problem("line 2", printable(_first_message(error)), _REMEDY)]) from error


def _rows(text: str) -> Sequence[Mapping[str, str]]:
    """Returns the lines below the header as dicts by column; at least one."""
    try:
        header, *lines = csv.reader(text.removeprefix("\ufeff").splitlines(), strict=True)
    except (csv.Error, ValueError) as error:
        raise Rejected(_SUBJECT, [Problem("file", "it is not a table of comma-separated values", _REMEDY)]) from error
    if tuple(header) != COLUMNS:
        raise Rejected(_SUBJECT, [Problem("line 1", f"the columns are not {','.join(COLUMNS)}", _REMEDY)])
    if not lines:
        raise Rejected(_SUBJECT, [Problem("file", "it has no answer", "grade before you save the table")])
    problems = [
        Problem(f"line {number}", f"it has {len(line)} cells instead of {len(COLUMNS)}", _REMEDY)
        for number, line in enumerate(lines, start=2)
        if len(line) != len(COLUMNS)
    ]
    if problems:
        raise Rejected(_SUBJECT, problems)
    return [dict(zip(COLUMNS, line, strict=True)) for line in lines]


def _answer(row: Mapping[str, str]) -> Answer:
    """Returns the answer of a line. Raises ValueError, also as pydantic's ValidationError, if it is not valid."""
    if row["proper"] not in _PROPER:
        raise ValueError("proper is neither yes nor no nor empty")
    if not row["token"].startswith(TOKEN_PREFIX):
        raise ValueError(f"token does not begin with {TOKEN_PREFIX}")
    return Answer.model_validate(
        {
            "token": row["token"].removeprefix(TOKEN_PREFIX),
            "class_index": row["class_index"] or None,
            "proper": _PROPER[row["proper"]],
            "grade": row["grade"] or None,
            "milliseconds": row["milliseconds"],
            "device_pixel_ratio": row["device_pixel_ratio"],
        }
    )


def _first_message(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    problem = field_errors(error, Answer)[0].problem()
    return f"{problem.place}: {problem.what}"
