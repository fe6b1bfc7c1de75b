"""A submission that cannot be settled waits; everybody else is played, replayed and judged (X1)."""

import numpy as np
import pytest

from orchestrator.domain.plan import Stage
from orchestrator.domain.tasks import Isolation
from orchestrator.errors import BackendUnavailable, JobsParked, StoreFault
from orchestrator.execution import retry
from orchestrator.integrity.detection_power import SamplingDesign
from tests.execution.conftest import first_value, shift


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """Retries wait in real rounds; here they need not."""
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _seconds: None)


REPLAYED = SamplingDesign(power=0.9, cheat=0.5, attacks=1.0)


def cannot_start(backend, *names):
    """Has the backend lose every sandbox of these players, as an engine does that fails on their images."""
    backend.lose = lambda what, _count: what == "start" and backend.orders[-1].image.name in names


def parked(played):
    """Plays a round that somebody waits in; returns the fault."""
    with pytest.raises(JobsParked) as caught:
        played.run()
    return caught.value


@pytest.mark.parametrize("isolation", list(Isolation))
@pytest.mark.parametrize("culprit", ["bad-attack", "bad-defence"])
def test_one_submission_ends_no_round_for_others(stage, isolation, culprit) -> None:
    """Whoever's sandbox is lost at every attempt waits; the others meet each other, are replayed and judged."""
    attacks = {"shift": shift, "bad-attack": shift} if culprit == "bad-attack" else {"shift": shift}
    defences = {"first": first_value, "second": first_value}
    if culprit == "bad-defence":
        defences = {"bad-defence": first_value, **defences}
    played = stage(attacks, defences, isolation=isolation, replay=REPLAYED)
    cannot_start(played.backend, culprit)

    fault = parked(played)

    record = played.record
    assert f"{culprit} waits: " in str(fault)
    assert {event.submission for event in played.events("job_parked")} == {culprit}
    assert {event.submission for event in record.round.parked_jobs.values()} == {culprit}
    for defence in ("first", "second"):
        answers = record.answers(defence, 12)
        assert {cell.attack for cell in answers} == {None, "shift"}
        assert all((found >= -2).all() for found in answers.values())
        assert [job.submission for job in record.round.replay_coverage.values()].count(defence) >= 1
    assert not record.round.closed
    assert sum(len(step.faults) for steps in record.round.steps.values() for step in steps.values()) == 0


def test_a_waiting_submission_is_tried_again_and_the_rest_stays(stage) -> None:
    """The next run plays what waited and nothing that was finished, and then the round is closed."""
    played = stage({"shift": shift}, {"first": first_value, "bad": first_value}, replay=SamplingDesign(power=0.0))
    cannot_start(played.backend, "bad")
    parked(played)
    questions = played.backend.questions
    played.backend.lose = lambda _what, _count: False

    record = played.run()

    assert record.round.closed
    assert not record.round.parked_jobs
    assert played.backend.questions == questions + 24
    alone = stage({"shift": shift}, {"first": first_value, "bad": first_value}, replay=SamplingDesign(power=0.0)).run()
    for defence in ("first", "bad"):
        for cell, found in alone.answers(defence, 12).items():
            assert np.array_equal(record.answers(defence, 12)[cell], found)


def test_a_round_stays_open_while_somebody_waits(stage) -> None:
    """A second run that fares no better raises again; the round never claims to be complete."""
    played = stage({"shift": shift}, {"first": first_value, "bad": first_value})
    cannot_start(played.backend, "bad")
    parked(played)
    parked(played)
    assert played.events("round_closed") == []


def test_a_bug_that_one_player_brings_about_ends_no_round(stage) -> None:
    """An error in our own code, while one submission plays, is that job's: it waits, with the error's words."""
    played = stage({"shift": shift}, {"first": first_value, "bad": first_value})
    start = played.backend.start

    def broken(order):
        if order.image.name == "bad":
            raise KeyError("a bug")
        return start(order)

    played.backend.start = broken
    fault = parked(played)
    assert "bad waits: classify infrastructure: KeyError: 'a bug'" in str(fault)
    assert {cell.attack for cell in played.record.answers("first", 12)} == {None, "shift"}


def test_a_replay_that_cannot_be_played_waits_alone(stage) -> None:
    """Where only the replays of one defence fail, everything else is judged; they are played by the next run."""
    played = stage({"shift": shift}, {"first": first_value, "bad": first_value}, replay=REPLAYED)
    replays = {job.id for job in played.plan().jobs if job.stage is Stage.REPLAY and job.submission == "bad"}
    played.backend.lose = lambda what, _count: what == "start" and played.backend.orders[-1].job in replays
    parked(played)
    assert {event.stage for event in played.events("job_parked")} == {Stage.REPLAY}
    judged = {event.submission for event in played.events("replay_judged")}
    assert judged == {"first"}
    played.backend.lose = lambda _what, _count: False
    assert played.run().round.closed
    assert {event.submission for event in played.events("replay_judged")} == {"first", "bad"}


def test_what_everybody_needs_ends_the_round_at_once(stage, monkeypatch) -> None:
    """An engine that stays away or a full disk is nobody's own: no job is tried after it, and none is parked."""
    monkeypatch.setattr(retry, "MAX_WAIT_SECONDS", 0.01)
    for fault in (BackendUnavailable("nobody answers"), StoreFault("no space left")):
        played = stage({"shift": shift}, {"first": first_value, "second": first_value})
        played.backend.lose = lambda what, _count, fault=fault: what == "start" and fault
        with pytest.raises(type(fault)):
            played.run()
        assert played.events("job_parked") == []
        assert {event.job for event in played.events("attempt_failed")} == {played.plan().jobs[0].id}
