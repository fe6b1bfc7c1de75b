"""The gate for what leaves the house before labels are released (A2)."""

import json
import re
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from orchestrator.domain.findings import FindingKind
from orchestrator.scoring import redaction, results_file
from orchestrator.scoring.fault_texts import FAULT_TEXTS, OTHER_FAULT_TEXT, fault_text

from .pages import parts, results_of

PASSED: dict[str, set[str]] = {
    "Results": {
        *("schema_version", "contest", "title", "format", "round", "complete", "isolation", "backend", "seed", "notes"),
        *("rules", "commitment", "ledger", "software", "replay", "alarms"),
    },
    "TaskPart": {"name", "classes", "shape", "pictures", "norm", "epsilon"},
    "FaultPart": {"code", "reason", "times", "pictures", "message"},
    "SubmissionPart": {
        *("id", "name", "team", "side", "baseline", "image", "status", "forfeits", "violations", "faults"),
        *("forfeit_reasons", "sandboxes", "endings"),
    },
    "CellPart": {"defence", "attack", "total", "held", "fooled", "abstained", "forfeits", "faults", "not_played"},
    "RowPart": {"rank", "submission", "ranks", "violations", "place", "no_prize"},
    "LeaderboardPart": {"name", "title", "measure", "unit", "more_is_better", "rules"},
    "ReplayPart": {
        *("submission", "questions", "changed", "drawn", "decided", "achieved", "clashes", "noise", "refused"),
        *("late", "accused", "fresh_copy"),
    },
    "DetectionPart": {"sequence", "chance", "start"},
    "FindingPart": {"submission", "kind", "rules", "compared", "image", "batch"},
    "JobPart": {"stage", "submission", "status"},
    "WaitingPart": {"submission", "stage", "code"},
}
"""Fields that go out as they are: names from before the play, words of ours, codes, counts, public digests."""
MENDED: dict[str, set[str]] = {
    "Results": {"task", "submissions", "cells", "boards", "replays", "findings", "jobs", "waiting"},
    "TaskPart": {"digest"},
    "FaultPart": set(),
    "SubmissionPart": {"findings", "largest", "seconds", "cpu_seconds", "peak_bytes", "bytes_in", "bytes_out"},
    "CellPart": {"accuracy", "accuracy_interval", "delta", "delta_interval"},
    "RowPart": {"score", "exact", "interval", "reason"},
    "LeaderboardPart": {"rows"},
    "ReplayPart": {"job"},
    "DetectionPart": set(),
    "FindingPart": {
        *("id", "summary", "disagreements", "job", "steps", "seeds", "sequence", "length", "alone", "improbable"),
    },
    "JobPart": {"id", "seconds"},
    "WaitingPart": {"job", "message"},
}
"""Fields that are rounded, renamed or emptied on the way."""


@pytest.mark.parametrize("name", PASSED)
def test_every_field_was_decided_about(name):
    """A new field of the results goes out only once somebody wrote down here that it may, or how it is mended."""
    kind = getattr(results_file, name)
    known = {field.name for field in fields(kind)} if is_dataclass(kind) else set(kind.model_fields)
    assert PASSED[name] | MENDED[name] == known
    assert not PASSED[name] & MENDED[name]


def test_fields_pass_as_they_are_or_are_mended():
    """What is said to pass is equal on both sides; every other field of the sample round differs or holds nothing."""
    inside, outside = (
        results_of().model_dump(mode="json"),
        redaction.redact_results(results_of()).model_dump(mode="json"),
    )
    for name in PASSED["Results"]:
        assert inside[name] == outside[name], name
    lists = {"submissions": "SubmissionPart", "cells": "CellPart", "replays": "ReplayPart", "findings": "FindingPart"}
    for key, kind in lists.items():
        for before, after in zip(inside[key], outside[key], strict=True):
            assert {field: before[field] for field in PASSED[kind]} == {field: after[field] for field in PASSED[kind]}


def test_nothing_that_a_label_could_be_read_from_goes_out():
    """Digests of hidden data, evidence, and every tail of a number that a submission can choose are gone."""
    inside = results_of()
    shown = redaction.redact_results(inside).model_dump(mode="json")
    text = json.dumps(shown).replace(redaction.WITHHELD, "")
    secret = {inside.task.digest, *(job.id for job in inside.jobs), *(finding.id for finding in inside.findings)}
    secret |= {finding.job for finding in inside.findings} | {replay.job for replay in inside.replays}
    assert len(secret) > 3
    assert any("F1" in row.reason for board in inside.boards for row in board.rows)
    assert [word for word in secret if word in text] == []
    [finding] = shown["findings"]
    assert finding["id"] == "finding-1"
    for name in ("disagreements", "sequence", "steps", "seeds"):
        assert finding[name] == []
    assert (finding["alone"], finding["improbable"], finding["length"]) == (None, None, 0)
    for part in shown["submissions"]:
        assert part["largest"] is None
        for name in ("seconds", "cpu_seconds", "peak_bytes", "bytes_in", "bytes_out"):
            assert part[name] is None or float(f"{part[name]:.1e}") == part[name], name
    assert all(job["seconds"] is None or float(f"{job['seconds']:.1e}") == job["seconds"] for job in shown["jobs"])
    rows = [row for board in shown["boards"] for row in board["rows"]]
    assert {row["exact"] for row in rows} == {None}
    numbers = [row["score"] for row in rows if row["score"] is not None]
    numbers += [limit for row in rows for limit in row["interval"] or ()]
    numbers += [cell["delta"] for cell in shown["cells"] if cell["delta"] is not None]
    assert all(round(number, 2) == number for number in numbers)
    assert all(round(cell["accuracy"], 4) == cell["accuracy"] for cell in shown["cells"])


def test_findings_of_a_submission_keep_pointing_at_them():
    """A submission's findings are named as the findings are."""
    shown = redaction.redact_results(results_of())
    assert [found for part in shown.submissions for found in part.findings] == ["finding-1"]


@pytest.mark.parametrize(("amount", "told"), [(1234567, 1200000), (0.0456, 0.046), (99.9, 100.0), (0, 0), (None, None)])
def test_amounts_keep_two_figures(amount: Any, told: Any):
    """A whole number stays whole; nothing and zero stay themselves."""
    assert redaction.round_to_figures(amount) == told
    assert type(redaction.round_to_figures(amount)) is type(told)


@pytest.mark.parametrize(
    ("clashes", "kind", "said"),
    [
        (1, "state", "90 compared, 1 of them disagree."),
        (8, "state", "90 compared, at least 8 of them disagree."),
        (0, "refused", "90 compared."),
    ],
)
def test_a_finding_is_told_in_counts(clashes, kind, said):
    """How many were compared and disagree; where the record holds the first ones only, that there may be more."""
    found = {**parts(findings="F1"), "kind": FindingKind(kind)}
    found["disagreements"] = found["disagreements"] * clashes
    [shown] = redaction.redact_results(results_of(findings=[found])).findings
    assert shown.summary == said


def test_every_code_of_a_fault_has_our_words(document_text):
    """Each fault that the document lists for a submission is told in a sentence of ours, without a figure."""
    listed = document_text("limits-and-errors.md").split("\n## ")
    [faults] = [chapter for chapter in listed if "\n### reported\n" in chapter]
    codes = set(re.findall(r"^### (.+)$", faults, re.MULTILINE)) - {"submission"}
    assert codes == set(FAULT_TEXTS)
    assert not [sentence for sentence in (*FAULT_TEXTS.values(), OTHER_FAULT_TEXT) if re.search(r"\d", sentence)]
    assert fault_text("made up") == OTHER_FAULT_TEXT
