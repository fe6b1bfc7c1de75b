"""Events as the ledger keeps them, and the round that they tell."""

import json

import pytest
from pydantic import ValidationError

from orchestrator.domain import events
from orchestrator.domain.findings import Disagreement, Finding, FindingKind
from orchestrator.domain.ids import canonical_json
from orchestrator.domain.plan import Stage
from orchestrator.domain.round import Round
from orchestrator.domain.submissions import Side, Submission

ZERO = "sha256:" + "0" * 64
ONE = "sha256:" + "1" * 64
OPENED = events.RoundOpened(
    round="round-1",
    contest={"contest": "c", "rules": {"points": 12.5}, "labels": True},
    task=events.TaskRecord(
        name="t",
        classes=["0", "1"],
        shape=[1, 8, 8],
        count=2,
        digest=ZERO,
        norm="linf",
        epsilon="51/2",
        pixels=ZERO,
        labels=ONE,
    ),
    backend="process",
    commitment=ONE,
    software="0.1.0",
    protocol=1,
)
ADMITTED = events.SubmissionAdmitted(
    id="a", name="a", team="T", side=Side.ATTACK, baseline=False, digest="sha256:x", image="", submitted=""
)
JOBS = [events.JobRecord(id=name, stage=Stage.PERTURB, submission="a") for name in ("j1", "j2")]
PLANNED = events.PlanMade(jobs=JOBS)
FINISHED = events.JobFinished(job="j1", stage=Stage.PERTURB, submission="a", device=None, seconds=1.5, sandboxes=[])
FAILED = events.AttemptFailed(job="j1", attempt=1, code="sandbox-lost", message="the engine went away")
RETURNED = events.BackendReturned(job="j1", seconds=12.5)
CLOSED_PLAY = events.PlayClosed(head=ONE)
FOUND = events.FindingMade(
    id="f0",
    submission="d",
    finding=FindingKind.CHANCE,
    rules=["A10"],
    summary="answers change",
    compared=3,
    disagreements=[events.DisagreementRecord(attack=None, picture=7, played=1, replayed=1, repeated=-1)],
)
CLOSED = events.RoundClosed()


def step(number, **changes):
    """Returns a finished step of the job j1."""
    body = {"job": "j1", "stage": Stage.PERTURB, "submission": "a", "step": number, "cells": [], "seconds": 0.25}
    faults = [events.FaultRecord(code="deadline", message="late", pictures=2)]
    return events.StepFinished(**{**body, "blobs": {"index": ZERO}, "faults": faults, **changes})


ALL = [OPENED, ADMITTED, PLANNED, step(0), FINISHED, FAILED, RETURNED, CLOSED_PLAY, FOUND, CLOSED]


@pytest.mark.parametrize("event", ALL, ids=lambda event: event.kind)
def test_an_event_survives_the_ledger(event):
    """Every event is the same after it was written as JSON and read back."""
    assert events.read_event(json.loads(canonical_json(event.model_dump(mode="json")))) == event


def test_every_kind_of_event_is_tested_here():
    """The list of this file is the whole vocabulary."""
    assert {type(event) for event in ALL} == set(events.Event.__args__)


@pytest.mark.parametrize("event", ALL, ids=lambda event: event.kind)
def test_unknown_keys_are_errors(event):
    """A key that this version does not know is refused, never ignored."""
    body = event.model_dump(mode="json") | {"later": 1}
    with pytest.raises(ValidationError, match="later"):
        events.read_event(body)


@pytest.mark.parametrize("body", [{}, {"kind": "round_reopened"}, {"kind": None}, {"job": "j1"}])
def test_unknown_kinds_are_errors(body):
    """An entry whose kind is missing or unknown is no event."""
    with pytest.raises(ValidationError, match="kind"):
        events.read_event(body)


@pytest.mark.parametrize(
    "digest", ["", "sha256:", "sha256:" + "0" * 63, "sha256:" + "A" * 64, "../" + "0" * 64, ZERO + "\n"]
)
def test_a_digest_is_64_small_hex_digits(digest):
    """What names a blob can be nothing else, so that it is never a path."""
    with pytest.raises(ValidationError):
        events.PlayClosed(head=digest)


def test_a_time_is_not_negative():
    """Measured seconds below zero are refused."""
    with pytest.raises(ValidationError):
        step(0, seconds=-0.1)


def told(*them):
    """Returns the round after these events."""
    found = Round()
    for event in them:
        found.apply(event)
    return found


def test_a_round_is_the_fold_of_its_events():
    """After all events the round knows who played, what is done, what was found, and that it is closed."""
    found = told(*ALL)
    assert found.opened == OPENED
    assert found.roster.submissions == (
        Submission(id="a", name="a", team="T", side=Side.ATTACK, digest="sha256:x", image=""),
    )
    assert found.planned == tuple(JOBS)
    assert found.steps == {"j1": {0: step(0)}}
    assert found.finished == {"j1": FINISHED}
    assert found.failures == [FAILED]
    assert found.replay_head == ONE
    disagreement = Disagreement(attack=None, picture=7, played=1, replayed=1, repeated=-1)
    assert found.findings == [Finding("f0", "d", FindingKind.CHANCE, ("A10",), "answers change", 3, (disagreement,))]
    assert found.closed


def test_nothing_happened_yet():
    """A round without events has nobody in it and is not closed."""
    found = told()
    assert (found.opened, tuple(found.roster), found.planned, found.closed) == (None, (), (), False)


def test_a_later_plan_replaces_the_earlier_one():
    """A new plan reopens a closed round, and what is finished stays finished (X4)."""
    again = events.PlanMade(jobs=[*JOBS, events.JobRecord(id="j3", stage=Stage.CLASSIFY, submission="d")])
    found = told(*ALL, again)
    assert [job.id for job in found.planned] == ["j1", "j2", "j3"]
    assert (found.closed, set(found.finished)) == (False, {"j1"})


def test_steps_are_kept_by_job_and_number():
    """Steps of one job are told apart by their number, in any order."""
    found = told(step(1), step(0), step(0, job="j2"))
    assert {job: sorted(steps) for job, steps in found.steps.items()} == {"j1": [0, 1], "j2": [0]}
