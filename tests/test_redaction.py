"""The gate for what leaves the house: before labels are released (A2), and ever."""

import json
from dataclasses import fields, is_dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, get_args

import pytest

from orchestrator import redaction
from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import CoreContestEvent, FormatEvent
from orchestrator.domain.findings import FindingKind
from orchestrator.domain.submissions import Side
from orchestrator.errors import NotGenuine
from orchestrator.formats.tournament.events import FinalistsPromoted
from orchestrator.scoring import results_file
from tests.reports.pages import parts, results_of

PASSED: dict[str, set[str]] = {
    "Results": {
        *("schema_version", "contest", "title", "format", "round", "complete", "isolation", "backend", "seed", "notes"),
        *("rules", "commitment", "ledger", "software", "replay", "alarms", "coarse"),
    },
    "TaskPart": {"name", "classes", "shape", "pictures", "norm", "epsilon"},
    "FaultPart": {"code", "reason", "times", "pictures", "message"},
    "SubmissionPart": {
        *("id", "name", "team", "side", "baseline", "image", "status", "forfeits", "violations", "faults"),
        *("submitted", "forfeit_reasons", "sandboxes", "endings"),
    },
    "CellPart": {"defence", "attack", "total", "held", "fooled", "abstained", "forfeits", "faults", "not_played"},
    "RowPart": {"submission", "no_prize"},
    "ColumnPart": {"name", "title", "unit", "more_is_better", "measure"},
    "ValuePart": set(),
    "QueryPart": {"attack", "defence", "pictures", "successes", "success", "success_interval"},
    "LeaderboardPart": {"name", "title", "measure", "unit", "more_is_better", "columns", "rules"},
    "ReplayCoveragePart": {
        *("submission", "questions", "changed", "drawn", "decided", "achieved", "mismatches", "noise", "refused"),
        *("late", "accused", "fresh_copy"),
    },
    "DetectionPart": {"sequence", "chance", "start"},
    "FindingPart": {"submission", "kind", "rules", "compared", "image", "batch"},
    "JobPart": {"stage", "submission", "status"},
    "WaitingPart": {"submission", "stage", "code"},
}
"""Fields that go out as they are: names from before the play, words of ours, codes, counts, public digests."""
MENDED: dict[str, set[str]] = {
    "Results": {"task", "submissions", "cells", "boards", "queries", "replays", "findings", "jobs", "waiting"},
    "TaskPart": {"digest"},
    "FaultPart": set(),
    "SubmissionPart": {"findings", "largest", "seconds", "cpu_seconds", "peak_bytes", "bytes_in", "bytes_out"},
    "CellPart": {"accuracy", "accuracy_interval", "delta", "delta_interval"},
    "RowPart": {"rank", "ranks", "prize_rank", "score", "exact", "interval", "values", "reason", "remark"},
    "ColumnPart": set(),
    "ValuePart": {"value", "exact", "interval"},
    "QueryPart": {"queries", "median", "curve"},
    "LeaderboardPart": {"rows"},
    "ReplayCoveragePart": {"job"},
    "DetectionPart": set(),
    "FindingPart": {
        *("id", "summary", "disagreements", "job", "steps", "seeds", "sequence", "length", "answer_alone", "p_value"),
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
    lists = {
        "submissions": "SubmissionPart",
        "cells": "CellPart",
        "replays": "ReplayCoveragePart",
        "findings": "FindingPart",
    }
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
    assert (finding["answer_alone"], finding["p_value"], finding["length"]) == (None, None, 0)
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
    ("mismatches", "kind", "said"),
    [
        (1, "state", "90 compared, 1 of them disagree."),
        (8, "state", "90 compared, at least 8 of them disagree."),
        (0, "refused", "90 compared."),
    ],
)
def test_a_finding_is_told_in_counts(mismatches, kind, said):
    """How many were compared and disagree; where the record holds the first ones only, that there may be more."""
    found = {**parts(findings="F1"), "kind": FindingKind(kind)}
    found["disagreements"] = found["disagreements"] * mismatches
    [shown] = redaction.redact_results(results_of(findings=[found])).findings
    assert shown.summary == said


class Payment(FormatEvent):
    """A format's event with a field that nobody outside may read."""

    withheld_fields: ClassVar[frozenset[str]] = frozenset({"account"})
    kind: Literal["echo.paid"] = "echo.paid"
    amount: int
    account: str = ""


def test_a_field_that_a_format_withholds_is_in_no_bundle():
    """Of an event with such fields the others are shown in its place; who acted is one of those that are not."""
    paid = Payment(actor="organizer", amount=3, account="DE00", reason="first")
    assert redaction.redact_contest_event(paid) == {"kind": "echo.paid", "amount": 3, "reason": "first"}


def test_an_event_of_a_format_that_withholds_nothing_is_shown():
    """It stands in the bundle as it is in the ledger."""
    assert redaction.redact_contest_event(FinalistsPromoted.model_construct()) is None


def test_a_kind_of_event_that_nobody_decided_about_is_withheld():
    """New kinds show their leaf alone until somebody lists them: in a contest's ledger and in a sealed round's."""
    unknown = SimpleNamespace(kind="new")
    assert redaction.redact_contest_event(unknown) == {}
    assert redaction.redact_sealed_event(unknown) == {}


def test_every_kind_of_a_contests_event_is_shown_or_stands_for_itself():
    """Those that name people are told in counts and places; the other kinds are shown whole."""
    told = {
        kind.__name__
        for kind in get_args(CoreContestEvent)
        if redaction.redact_contest_event(kind.model_construct(people=[], team="", task="", side=None)) is not None
    }
    assert told == {
        *("TeamAdded", "SubmissionRefused", "RoleGranted", "RoleRevoked", "SubmissionArrived", "RoundRequestClosed"),
        *("AppealFiled", "AppealDecided"),
    }


SECRET_ACTS = [
    contest_events.RoleGranted(
        actor="canary-a", person=contest_events.PersonRecord(id="canary-id", name="canary name"), role="rater"
    ),
    contest_events.RoleRevoked(actor="canary-a", person="canary-id", role="rater", reason="canary reason"),
    contest_events.SubmissionArrived(
        actor="canary-a",
        arrival="a" * 16,
        team="One",
        task="digits",
        side="attack",
        name="canary-name",
        file_name="canary.zip",
        size=77,
        digest="sha256:" + "7" * 64,
    ),
    contest_events.SubmissionRefused(
        actor="canary-a", name="canary", team="One", task="digits", side=None, problems=["canary"], arrival="a" * 16
    ),
    contest_events.RoundRequestClosed(actor="canary-a", request="a" * 16, outcome="failed", problem="/canary: full"),
    contest_events.AppealFiled(
        actor="canary-a", appeal="a" * 16, team="One", submission="a", finding="canary", text="canary text"
    ),
    contest_events.AppealDecided(actor="canary-a", appeal="a" * 16, upheld=True, reason="canary reason"),
]


@pytest.mark.parametrize("act", SECRET_ACTS, ids=lambda act: act.kind)
def test_a_withheld_act_tells_no_words_and_is_read_again(act) -> None:
    """What a bundle shows has nobody's words or id; it is read as the same act, and says the same once more."""
    public = redaction.redact_contest_event(act)
    assert "canary" not in json.dumps(public)
    assert "7777" not in json.dumps(public)
    again = redaction.parse_redacted_event(public, "entry 1")
    assert type(again) is type(act)
    assert redaction.redact_contest_event(again) == public


@pytest.mark.parametrize("act", SECRET_ACTS, ids=lambda act: act.kind)
def test_a_withheld_act_that_says_more_or_less_is_not_genuine(act) -> None:
    """A bundle neither adds a field of the act in its place nor leaves one out that others need."""
    public = redaction.redact_contest_event(act)
    told = {"actor": "somebody"} | public
    short = {name: value for name, value in public.items() if name not in {"role", "team", "outcome", "upheld"}}
    for forged in (told, short):
        with pytest.raises(NotGenuine):
            redaction.parse_redacted_event(forged, "entry 1")


@pytest.mark.parametrize("kind", [[], {}, ["role_granted"], None, 7, True, "", "no_such_kind", "nobody.did_this"])
def test_a_withheld_act_of_no_kind_is_not_genuine(kind) -> None:
    """Whatever JSON value a bundle has in place of the kind, the bundle is refused."""
    with pytest.raises(NotGenuine, match="entry 1"):
        redaction.parse_redacted_event({"kind": kind}, "entry 1")


def test_numbers_of_queries_are_coarse():
    """An attack has seen hidden pictures: how often it asked is told in two figures, and its curve at few places."""
    part = results_file.QueryPart(
        attack="a",
        defence="d",
        pictures=8,
        queries=12345,
        successes=3,
        success=0.375,
        success_interval=(0.1, 0.7),
        median=1234,
        curve=[(1, 0.125), (3, 0.25), (4, 0.375), (777, 0.5)],
    )
    [shown] = redaction.redact_queries([part])
    assert (shown.queries, shown.median) == (12000, 1200)
    assert shown.curve == [(1, 0.125), (5, 0.375), (1000, 0.5)]
    assert shown.successes == part.successes


def coarse_board(*scores: float, unit: str = "points") -> list[dict[str, Any]]:
    """Returns what is shown of a board before the release, of submissions that were received in this order."""
    inside = results_of(coarse=True)
    [board, *_], names = inside.boards, [part.id for part in inside.submissions]
    rows = [
        board.rows[0].model_copy(
            update={"submission": name, "score": score, "interval": (score - 3.301, score + 3.301), "values": {}}
        )
        for name, score in zip(names, scores, strict=False)
    ]
    rows.sort(key=lambda row: -(row.score or 0))
    ranked = [row.model_copy(update={"rank": number, "prize_rank": number}) for number, row in enumerate(rows, 1)]
    shown = redaction.redact_results(
        inside.model_copy(update={"boards": [board.model_copy(update={"rows": ranked, "unit": unit})]})
    )
    return [row.model_dump(mode="json") for row in shown.boards[0].rows]


def test_a_rank_tells_no_more_than_the_rounded_number():
    """Until the release, scores within the same hundredth rank by the earlier submission, whichever is larger (C9)."""
    assert coarse_board(41.2, 41.3, 43.0) == coarse_board(41.3, 41.2, 43.0)
    assert [row["rank"] for row in coarse_board(41.2, 41.3, 43.0)] == [1, 2, 3]
    assert coarse_board(41.2, 43.0) != coarse_board(43.0, 41.2)


def test_faults_of_a_hidden_model_are_not_counted():
    """A picture that it fails on counts as misclassified, so their number is withheld until the release (C9)."""
    inside = results_of(coarse=True)
    [fault, *_] = next(part.faults for part in inside.submissions if part.faults)
    parts = [part.model_copy(update={"faults": [fault], "endings": {"exit": 1}}) for part in inside.submissions]
    shown = redaction.redact_results(inside.model_copy(update={"submissions": parts})).submissions
    assert {part.side for part in shown if part.faults or part.endings} == {Side.ATTACK}
    assert {
        part.side for part in redaction.redact_results(results_of(submissions=parts)).submissions if part.faults
    } == ({Side.ATTACK, Side.DEFENCE})


def test_nothing_that_a_hidden_model_does_is_seen_before_the_release():
    """Models that answer, fail and take time differently leave one document where the hundredths are the same (C9)."""

    def played(number: int) -> Any:
        inside = results_of(coarse=True)
        used = dict.fromkeys(redaction.MEASURED_AMOUNTS, 1000 * number)
        parts = [
            part.model_copy(
                update={
                    "status": "faulted" if number % 2 else "played",
                    "faults": part.faults[: number % 2],
                    "endings": {"exit": number},
                    "sandboxes": number,
                    "seconds": float(number),
                    **used,
                }
            )
            if part.side is Side.DEFENCE
            else part
            for part in inside.submissions
        ]
        cells = [replace(cell, held=number, fooled=cell.total - number) for cell in inside.cells]
        jobs = [replace(job, seconds=float(number)) for job in inside.jobs]
        return inside.model_copy(update={"submissions": parts, "cells": cells, "jobs": jobs})

    shown = [redaction.redact_results(played(number)).model_dump_json() for number in (1, 2, 7)]
    assert len({*shown}) == 1
    assert played(1).model_dump_json() != played(2).model_dump_json()


def test_limits_tell_no_more_than_the_rounded_number():
    """As the score grows within one hundredth its limits stay, and they are never narrower than the interval (C9)."""
    assert len({json.dumps(coarse_board(score)) for score in (41.0, 41.2, 41.4, 40.6)}) == 1
    [row] = coarse_board(41.0)
    assert (row["score"], row["interval"], row["exact"], row["ranks"]) == (41, [37, 45], None, None)
    [row] = coarse_board(1.0)
    assert row["interval"] == [0, 5]
