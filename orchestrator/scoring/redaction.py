"""What of a round's results may be shown outside the house before labels are released (rule A2): one gate for all.

Whatever is written for a team or for the web is made from what `shown` returns, never from the results themselves.
From hidden data that is codes, counts and rounded numbers. Numbers that a submission can choose finely lose their tail,
since an attack sees hidden labels and could write them into a time or a distance. A digest that depends on labels
without a salt could be guessed: such ids become numbers.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import floor, log10

from orchestrator.domain.findings import FindingKind
from orchestrator.integrity.findings import MAX_SHOWN as RECORDED
from orchestrator.scoring.results_file import (
    CellPart,
    FindingPart,
    JobPart,
    LeaderboardPart,
    ReplayPart,
    Results,
    RowPart,
    SubmissionPart,
    WaitingPart,
)

WITHHELD = "sha256:" + "0" * 64
"""Stands in place of a digest that is not shown."""
FIGURES = 2
"""Measured amounts keep so many."""
SHARE_DIGITS, POINT_DIGITS = 4, 2
"""Decimals of accuracies and of points: a hundredth of a point."""


def redact_results(results: Results) -> Results:
    """Returns the results as everybody may see them."""
    names = {finding.id: f"finding-{number}" for number, finding in enumerate(results.findings, start=1)}
    jobs = {job.id: f"job-{number}" for number, job in enumerate(results.jobs, start=1)}
    return results.model_copy(
        update={
            "task": results.task.model_copy(update={"digest": WITHHELD}),
            "submissions": [_submission(part, names) for part in results.submissions],
            "cells": [_cell(part) for part in results.cells],
            "boards": [_board(part, names) for part in results.boards],
            "replays": [_replay(part, jobs) for part in results.replays],
            "findings": [_finding(part, names[part.id], jobs) for part in results.findings],
            "waiting": [_waiting(part, jobs) for part in results.waiting],
            "jobs": [_job(part, jobs) for part in results.jobs],
        }
    )


def round_to_figures(amount: float | None) -> float | None:
    """Returns a measured amount to two figures."""
    if not amount:
        return amount
    rounded = round(amount, FIGURES - 1 - floor(log10(abs(amount))))
    return int(rounded) if isinstance(amount, int) else rounded


def finding_summary(finding: FindingPart) -> str:
    """Returns what a finding rests on, in counts: on record are the first disagreements only."""
    if finding.kind is FindingKind.REFUSED:
        return f"{finding.compared:,} compared."
    clashes = len(finding.disagreements)
    least = "at least " if clashes >= RECORDED else ""
    return f"{finding.compared:,} compared, {least}{clashes:,} of them disagree."


def _waiting(part: WaitingPart, jobs: Mapping[str, str]) -> WaitingPart:
    """Returns who waits, without the words of the fault: they may name our machines."""
    return part.model_copy(update={"job": jobs.get(part.job, "job"), "message": ""})


def _submission(part: SubmissionPart, names: Mapping[str, str]) -> SubmissionPart:
    amounts = ("seconds", "cpu_seconds", "peak_bytes", "bytes_in", "bytes_out")
    rounded = {name: round_to_figures(getattr(part, name)) for name in amounts}
    return part.model_copy(
        update={**rounded, "largest": None, "findings": [names.get(found, "finding") for found in part.findings]}
    )


def _cell(part: CellPart) -> CellPart:
    low, high = part.accuracy_interval
    return replace(
        part,
        accuracy=round(part.accuracy, SHARE_DIGITS),
        accuracy_interval=(round(low, SHARE_DIGITS), round(high, SHARE_DIGITS)),
        delta=None if part.delta is None else round(part.delta, POINT_DIGITS),
        delta_interval=_rounded(part.delta_interval),
    )


def _board(part: LeaderboardPart, names: Mapping[str, str]) -> LeaderboardPart:
    return part.model_copy(update={"rows": [_row(row, names) for row in part.rows]})


def _row(part: RowPart, names: Mapping[str, str]) -> RowPart:
    return part.model_copy(
        update={
            "score": None if part.score is None else round(part.score, POINT_DIGITS),
            "exact": None,
            "interval": _rounded(part.interval),
            "reason": _renamed(part.reason, names),
        }
    )


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """Returns our words with the findings that they name under their new names."""
    for old, new in names.items():
        text = text.replace(f"finding {old}", new).replace(old, new)
    return text


def _replay(part: ReplayPart, jobs: Mapping[str, str]) -> ReplayPart:
    return part.model_copy(update={"job": jobs.get(part.job, "job")})


def _finding(part: FindingPart, name: str, jobs: Mapping[str, str]) -> FindingPart:
    return part.model_copy(
        update={
            "id": name,
            "summary": finding_summary(part),
            "disagreements": [],
            "job": jobs.get(part.job, "job"),
            "steps": [],
            "seeds": [],
            "sequence": [],
            "length": 0,
            "alone": None,
            "improbable": None,
        }
    )


def _job(part: JobPart, jobs: Mapping[str, str]) -> JobPart:
    return replace(part, id=jobs[part.id], seconds=round_to_figures(part.seconds))


def _rounded(limits: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if limits is None else (round(limits[0], POINT_DIGITS), round(limits[1], POINT_DIGITS))
