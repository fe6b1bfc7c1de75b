"""Events as the ledger keeps them, and the round that they tell."""

import json

import pytest
from pydantic import ValidationError

from orchestrator.domain import contest_events, events
from orchestrator.domain.findings import Disagreement, Finding, FindingKind, SequenceQuestion
from orchestrator.domain.ids import canonical_json
from orchestrator.domain.plan import Stage
from orchestrator.domain.round import Round
from orchestrator.domain.submissions import Side, Submission
from orchestrator.ledger.event_registry import parse_event

ZERO = "sha256:" + "0" * 64
ONE = "sha256:" + "1" * 64
TWO = "sha256:" + "2" * 64
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
PARKED = events.JobParked(job="j1", stage=Stage.PERTURB, submission="a", code="sandbox-lost", message="it went away")
RETURNED = events.BackendReturned(job="j1", seconds=12.5)
PROBED = events.ClusterProbed(namespace="sparring", outcome="blocked", probed_at="2026-11-20T08:00:00+00:00")
CLOSED_PLAY = events.PlayClosed(head=ONE, answers_digest=TWO)
FOUND = events.FindingMade(
    id="f0",
    submission="d",
    finding=FindingKind.CHANCE,
    rules=["A10"],
    summary="answers change",
    compared=3,
    disagreements=[
        events.DisagreementRecord(attack=None, picture=7, answer_in_play=1, answer_in_replay=-1, margin=0.5)
    ],
    image="sha256:x",
    job="r",
    steps=[2, 5],
    sequence=[events.SequenceQuestionRecord(attack="a", picture=7, answer=-1, pause=1.5)],
    length=1,
    batch=1,
    answer_alone=1,
    p_value=None,
)
JUDGED = events.ReplayJudged(
    submission="d",
    job="r",
    questions=40,
    changed=1,
    drawn=36,
    decided=20,
    achieved=0.5,
    asked=50,
    compared=45,
    mismatches=1,
    noise=2,
    refused=16,
    late=0,
    sandboxes=2,
)
CLOSED = events.RoundClosed()


def step(number, **changes):
    """Returns a finished step of the job j1."""
    body = {"job": "j1", "stage": Stage.PERTURB, "submission": "a", "step": number, "cells": [], "seconds": 0.25}
    faults = [events.FaultRecord(code="deadline", message="late", pictures=2)]
    return events.StepFinished(**{**body, "blobs": {"index": ZERO}, "faults": faults, **changes})


REUSED = events.JobsReused(round="initial", head=ONE, jobs=["j1"], count=2)
LOST = events.StepsLost(jobs=["j0"], reason="a blob is damaged")
ALL = [
    OPENED,
    ADMITTED,
    PLANNED,
    REUSED,
    step(0),
    FINISHED,
    LOST,
    FAILED,
    PARKED,
    RETURNED,
    PROBED,
    CLOSED_PLAY,
    JUDGED,
    FOUND,
    CLOSED,
]


@pytest.mark.parametrize("event", ALL, ids=lambda event: event.kind)
def test_an_event_survives_the_ledger(event):
    """Every event is the same after it was written as JSON and read back."""
    assert parse_event(json.loads(canonical_json(event.model_dump(mode="json")))) == event


def test_every_kind_of_event_is_tested_here():
    """The list of this file is the whole vocabulary of a round; acts are a contest's, in test_season.py."""
    assert {type(event) for event in ALL} == set(events.Event.__args__) - set(contest_events.ContestEvent.__args__)


def test_only_a_probe_that_was_overridden_is_kept():
    """Whoever asks how a round was played sees when somebody went against the probe, and not every start."""
    against = PROBED.model_copy(update={"outcome": "connected", "override_reason": "a cluster of our own"})
    assert told(OPENED, PROBED, against, PROBED).probe_overrides == [against]


@pytest.mark.parametrize(
    ("copies", "copied"),
    [
        ([], False),
        ([[""]], False),
        ([[ZERO]], True),
        ([[ZERO], [""]], False),
        ([[ZERO], [ONE]], True),
        ([[ZERO, ""], ["", ONE]], True),
    ],
)
def test_replays_run_from_a_copy_where_each_of_them_did(copies, copied):
    """A submission's planned replays all name one; other jobs, and replays that nobody plans any more, do not count.

    One step of a replay is enough: an orchestrator that was killed after the last step finishes the job without one.
    """
    names = [f"r{number}" for number in range(len(copies))]
    jobs = [events.JobRecord(id=name, stage=Stage.REPLAY, submission="a") for name in names]
    plan = [*(job.id for job in jobs), "j1", "old"]
    ends = []
    for job, stage, named in zip(
        plan, [*[Stage.REPLAY] * len(copies), Stage.PERTURB, Stage.REPLAY], [*copies, [ZERO], [""]], strict=True
    ):
        ends += [step(n, job=job, stage=stage, fresh_copy=copy) for n, copy in enumerate(named)]
        ends.append(FINISHED.model_copy(update={"job": job, "stage": stage}))
    old = events.JobRecord(id="old", stage=Stage.REPLAY, submission="a")
    past = told(OPENED, events.PlanMade(jobs=[old]), events.PlanMade(jobs=[*JOBS, *jobs]), *ends)
    assert past.copied("a") is copied
    assert not past.copied("b")


def test_what_was_lost_is_not_known_any_more():
    """Steps, ends, judgements and findings of a lost job are gone, and no other's."""
    other = FINISHED.model_copy(update={"job": "j2"})
    judged = told(OPENED, PLANNED, step(0), FINISHED, other, JUDGED, FOUND)
    assert (set(judged.finished_jobs), set(judged.replay_coverage), len(judged.judgements)) == ({"j1", "j2"}, {"r"}, 2)
    for event in (
        events.StepsLost(jobs=["j1"], reason="damaged"),
        events.StepsLost(jobs=["r"], reason="damaged"),
    ):
        judged.apply(event)
    assert (judged.steps, set(judged.finished_jobs)) == ({}, {"j2"})
    assert (judged.replay_coverage, judged.findings, judged.judgements) == ({}, [], [])
    assert judged.jobs.keys() == {"j1", "j2"}


@pytest.mark.parametrize("event", ALL, ids=lambda event: event.kind)
def test_unknown_keys_are_errors(event):
    """A key that this version does not know is refused, never ignored."""
    body = event.model_dump(mode="json") | {"later": 1}
    with pytest.raises(ValidationError, match="later"):
        parse_event(body)


@pytest.mark.parametrize("body", [{}, {"kind": "round_reopened"}, {"kind": None}, {"job": "j1"}])
def test_unknown_kinds_are_errors(body):
    """An entry whose kind is missing or unknown is no event."""
    with pytest.raises(ValidationError, match="kind"):
        parse_event(body)


@pytest.mark.parametrize(
    "digest", ["", "sha256:", "sha256:" + "0" * 63, "sha256:" + "A" * 64, "../" + "0" * 64, ZERO + "\n"]
)
def test_a_digest_is_64_small_hex_digits(digest):
    """What names a blob can be nothing else, so that it is never a path."""
    with pytest.raises(ValidationError):
        events.PlayClosed(head=digest, answers_digest=ONE)
    with pytest.raises(ValidationError):
        events.PlayClosed(head=ONE, answers_digest=digest)


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
    assert found.opening == OPENED
    assert found.roster.submissions == (
        Submission(id="a", name="a", team="T", side=Side.ATTACK, digest="sha256:x", image=""),
    )
    assert found.planned_jobs == tuple(JOBS)
    assert found.steps == {"j1": {0: step(0)}}
    assert found.finished_jobs == {"j1": FINISHED}
    assert found.failed_attempts == [FAILED]
    assert (found.replay_head, found.answers_digest) == (ONE, TWO)
    assert found.replay_coverage == {"r": JUDGED}
    assert found.findings == [
        Finding(
            id="f0",
            submission="d",
            kind=FindingKind.CHANCE,
            rules=("A10",),
            summary="answers change",
            compared=3,
            disagreements=(Disagreement(attack=None, picture=7, answer_in_play=1, answer_in_replay=-1, margin=0.5),),
            image="sha256:x",
            job="r",
            steps=(2, 5),
            sequence=(SequenceQuestion("a", 7, -1, 1.5),),
            length=1,
            answer_alone=1,
        )
    ]
    assert found.closed


def sandbox(seconds):
    """Returns the record of a sandbox that lived so long."""
    return events.SandboxRecord(
        ending="clean",
        reason=None,
        code=0,
        wall_seconds=seconds,
        cpu_seconds=None,
        peak_bytes=None,
        peak_pids=None,
        kills=0,
        sampled=True,
        stdin_bytes=None,
        stdout_bytes=None,
        stderr_bytes=None,
        stderr=None,
    )


def test_every_sandbox_is_known_once():
    """Those of steps and those of jobs add up, for one submission only, and a job need not be finished for it."""
    unfinished = step(1, job="j2", sandboxes=[sandbox(3)])
    done = FINISHED.model_copy(update={"sandboxes": [sandbox(2)]})
    others = step(0, job="j9", submission="b", sandboxes=[sandbox(9)])
    jobs = {"j1": "a", "j2": "a", "j9": "b"}
    plan = events.PlanMade(
        jobs=[events.JobRecord(id=job, stage=Stage.CLASSIFY, submission=whose) for job, whose in jobs.items()]
    )
    found = told(plan, step(0, sandboxes=[sandbox(1)]), done, unfinished, others)
    assert [s.wall_seconds for s in found.sandboxes_of("a")] == [1, 3, 2]
    assert [s.wall_seconds for s in found.sandboxes_of("b")] == [9]
    assert found.sandboxes_of("c") == []


def test_a_session_is_on_record_with_its_layout():
    """The pauses of a replayed session keep their places as whole numbers, also through JSON."""
    session = events.SessionRecord(purpose="waited", batch=1, pauses={6: 0.7}, seed=5)
    read = parse_event(json.loads(canonical_json(step(0, session=session).model_dump(mode="json"))))
    assert read.session == session


def test_nothing_happened_yet():
    """A round without events has nobody in it and is not closed."""
    found = told()
    assert (found.opening, tuple(found.roster), found.planned_jobs, found.closed) == (None, (), (), False)


def test_a_later_plan_replaces_the_earlier_one():
    """A new plan reopens a closed round, and what is finished stays finished (X4)."""
    again = events.PlanMade(jobs=[*JOBS, events.JobRecord(id="j3", stage=Stage.CLASSIFY, submission="d")])
    found = told(*ALL, again)
    assert [job.id for job in found.planned_jobs] == ["j1", "j2", "j3"]
    assert (found.closed, set(found.finished_jobs)) == (False, {"j1"})


def test_steps_are_kept_by_job_and_number():
    """Steps of one job are told apart by their number, in any order."""
    found = told(step(1), step(0), step(0, job="j2"))
    assert {job: sorted(steps) for job, steps in found.steps.items()} == {"j1": [0, 1], "j2": [0]}


def test_events_share_the_names_of_their_fields() -> None:
    """Events made with the same fields keep one set of their names, and a changed copy has a set of its own."""
    one, two = (events.JobsReused(round=name, head=ZERO, jobs=[], count=0) for name in "ab")
    assert one.model_fields_set is two.model_fields_set
    copy = one.model_copy(update={"kind": "jobs_reused"})
    assert copy.model_fields_set == one.model_fields_set | {"kind"} != one.model_fields_set
    assert events.JobsReused(kind="jobs_reused", round="a", head=ZERO, jobs=[], count=0) == one
    assert "kind" not in two.model_dump(exclude_unset=True)
