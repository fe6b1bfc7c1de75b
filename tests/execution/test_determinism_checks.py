"""Replays as a stage of a round: what is played again, what is found, and what a kill in the middle costs (X1, X3)."""

import dataclasses
import itertools
import threading
import time
from collections import Counter

import numpy as np
import pytest

from orchestrator.domain.exit_reasons import ExitReason
from orchestrator.domain.findings import FindingKind
from orchestrator.domain.plan import Stage
from orchestrator.domain.tasks import Isolation
from orchestrator.errors import Cancelled
from orchestrator.integrity import diagnosis, non_responses
from orchestrator.integrity.detection_power import SamplingDesign

from .cheats import (
    EVERYTHING,
    LENIENT,
    Counts,
    Crowded,
    Defence,
    Flaky,
    OwnChance,
    Refuses,
    SandboxChance,
    Seeded,
    SeededAttack,
    Shy,
    Stalls,
    apart,
    sessions,
)
from .conftest import first_value


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Bursts, waits and retries take no time where no test asks for it."""
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _seconds: None)
    monkeypatch.setattr(diagnosis, "BURST_PAUSES", {diagnosis.BURST_LENGTH: 0.002, 2 * diagnosis.BURST_LENGTH: 0.002})
    monkeypatch.setattr(diagnosis, "MAX_WAIT_SECONDS", 0.01)


def doubled(played):
    """Has the twelve pictures hold the values 0, 2 .. 22, so that `shift` makes versions that nobody else has."""
    pixels = (2 * np.arange(12, dtype=np.uint8)).repeat(4).reshape(12, 1, 2, 2)
    played.setting.samples.pixels[:] = pixels
    return played


def found(record):
    """Returns the kinds of the findings by whom they are against."""
    return {finding.submission: finding.kind for finding in record.round.findings}


def judged(played, submission):
    """Returns what the replays of a defence covered."""
    (one,) = [event for event in played.events("replay_judged") if event.submission == submission]
    return one


def test_a_seeded_attack_is_not_accused(stage) -> None:
    """Asked again in a fresh sandbox it makes the same pictures: half of its batches once more, and no finding."""
    played = stage({"seeded": SeededAttack}, replay=SamplingDesign(power=0.0, attacks=0.5))
    record = played.run()
    assert found(record) == {}
    assert [step.session for step in sessions(played, "seeded")] == [None, None]
    assert [len(job) for job in played.sandboxes("seeded", Stage.REPLAY)] == [1]


@pytest.mark.parametrize(
    ("attack", "kind"), [(OwnChance, FindingKind.CHANCE), (SandboxChance, FindingKind.ENVIRONMENT)]
)
def test_an_attack_that_draws_its_own_chance_is_found(stage, attack, kind) -> None:
    """Its pictures differ from those of the play twice over; whether also from each other names the kind."""
    played = stage({"own": attack}, replay=SamplingDesign(power=0.0, attacks=1.0))
    record = played.run()
    assert found(record) == {"own": kind}
    (finding,) = record.round.findings
    assert (finding.rules, finding.compared, finding.steps) == (("X3",), 12, tuple(range(6)))
    assert [len(job) for job in played.sandboxes("own", Stage.REPLAY)] == [2]


def test_an_attack_whose_play_was_interrupted_is_not_accused(stage) -> None:
    """After a loss in play a fresh sandbox went on with its chance from the start: what follows is not compared."""
    played = stage({"seeded": SeededAttack}, replay=SamplingDesign(power=0.0, attacks=1.0))
    played.backend.lose = lambda what, count: what == "question" and count == 2
    record = played.run()
    first = [step for step in played.events("step_finished") if step.stage is Stage.PERTURB]
    assert [step.fresh for step in first] == [True, True, False]
    assert found(record) == {}


def test_an_attack_whose_replay_was_interrupted_is_not_accused(stage) -> None:
    """The same where its replay lost a sandbox: only what one sandbox was asked from its start is compared."""
    played = stage({"seeded": SeededAttack}, replay=SamplingDesign(power=0.0, attacks=1.0))
    played.backend.lose = lambda what, count: what == "question" and count == 3 + 24 + 2
    record = played.run()
    assert [step.fresh for step in sessions(played, "seeded")] == [True, True, False]
    assert found(record) == {}


def test_the_sandboxes_of_the_next_planned_sessions_start_ahead(stage) -> None:
    """Two start while the session before is asked, and the record has the seed that each session's sandbox got."""
    ahead = []

    def patient(header, payload):
        until = time.monotonic() + 2
        if copies() and not ahead:
            while len(copies()) < 3 and time.monotonic() < until:
                time.sleep(0.005)
            ahead.append(len(copies()))
        return first_value(header, payload)

    def copies():
        return [order for order in played.backend.orders if order.image.digest.endswith("-copy-")]

    everything = dataclasses.replace(EVERYTHING, attacks=0.0)
    played = stage(defences={"patient": patient}, replay=everything, isolation=Isolation.ROUND)
    played.run()
    seeds = [step.session.seed for step in sessions(played, "patient")]
    assert ahead == [3]
    assert len(copies()) == len(seeds) == len(set(seeds)) == 3
    assert played.backend.seeds[-3:] == seeds


def test_the_seeds_of_sandboxes_that_start_together_have_an_order(stage) -> None:
    """It is that of the sessions, also if the second sandbox takes longer to be made than the third."""
    everything = dataclasses.replace(EVERYTHING, attacks=0.0)
    played = stage(replay=everything, isolation=Isolation.ROUND)
    start, numbers = played.backend.start, itertools.count()

    def uneven(order):
        if order.image.digest.endswith("-copy-") and next(numbers) == 1:
            threading.Event().wait(0.2)
        return start(order)

    played.backend.start = uneven
    played.run()
    assert [step.session.seed for step in sessions(played, "first")] == played.backend.seeds[-3:]


def test_what_was_started_ahead_for_planned_sessions_serves_no_other(stage) -> None:
    """A defence without restarts ends itself in the second session: the third one's sandbox is ended unasked."""
    limits = dataclasses.replace(LENIENT, restarts=0)
    played = stage(defences={"refuses": Refuses}, replay=EVERYTHING, limits=limits, isolation=Isolation.ROUND)
    played.run()
    steps = sessions(played, "refuses")
    assert [step.session.purpose for step in steps] == ["shuffled", "shuffled", "same-order", "as-in-play"]
    assert [len(step.sandboxes) for step in steps] == [1, 1, 0, 2]
    first, second, unasked, last = played.backend.seeds[-4:]
    assert [step.session.seed for step in steps] == [first, second, None, last]
    assert unasked not in {first, second, last}


class Killed(BaseException):
    """The orchestrator's end."""


def killed_at(count):
    """Returns a watch that kills the orchestrator when so many sessions and one more are on record."""
    left = iter(range(count))

    def watch(event) -> None:
        if event.kind == "step_finished" and event.stage is Stage.REPLAY and next(left, None) is None:
            raise Killed

    return watch


@pytest.mark.parametrize("cheat", [pytest.param(Counts, marks=pytest.mark.slow), Seeded])
def test_an_examination_goes_on_after_a_kill(stage, cheat) -> None:
    """Killed after any session, a round ends with the same verdict and the same sessions, none of them played twice."""
    whole = stage(defences={"cheat": cheat}, replay=EVERYTHING)
    expected = whole.run()
    assert "cheat" in found(expected)
    asked = sessions(whole, "cheat")
    assert len(asked) > 3
    for count in range(len(asked) - 1):
        again = stage(defences={"cheat": cheat}, replay=EVERYTHING)
        with pytest.raises(Killed):
            again.run(watch=killed_at(count))
        again.go_on()
        steps = sessions(again, "cheat")
        assert [step.step for step in steps] == list(range(len(asked)))
        for one, other in zip(asked, steps, strict=True):
            assert (one.blobs["rows"], one.session) == (other.blobs["rows"], other.session)
        assert again.record.round.findings == expected.round.findings
        assert judged(again, "cheat") == judged(whole, "cheat")


def test_every_replayed_sandbox_has_a_seed_of_its_own(stage) -> None:
    """No two sandboxes of a defence are told the same seed, but a sequence and its control; each is on record."""
    played = stage(defences={"cheat": Counts}, replay=EVERYTHING, isolation=Isolation.PICTURE)
    played.run()
    attack = played.setting.attack_seed(played.setting.roster["shift"])
    told = [seed for seed in played.backend.seeds if seed != attack]
    steps = sessions(played, "cheat")
    recorded = [step.session.seed for step in steps]
    assert recorded == told[-len(recorded) :]
    paired = [step.session.seed for step in steps if step.session.purpose in {"proof", "proof-control"}]
    assert len(paired) == 2 * diagnosis.PROOF_PAIRS
    assert paired[::2] == paired[1::2]
    others = [seed for seed in told if seed not in paired]
    assert max(Counter([*others, *paired[::2]]).values()) == 1


def test_seeds_are_not_repeated_after_a_kill(stage) -> None:
    """Where a step needed several sandboxes, those after a kill are told what none on record was told before."""
    played = stage(defences={"flaky": Flaky}, replay=EVERYTHING, limits=LENIENT)
    with pytest.raises(Killed):
        played.run(watch=killed_at(0))
    (session,) = sessions(played, "flaky")
    assert len(session.sandboxes) > 1
    kept, lost = len(played.record.round.sandboxes_of("flaky")), len(played.backend.seeds)
    played.go_on()
    attack = played.setting.attack_seed(played.setting.roster["shift"])
    before = [seed for seed in played.backend.seeds[:lost] if seed != attack][:kept]
    after = played.backend.seeds[lost:]
    assert after
    assert not set(before) & set(after)


def test_a_defence_that_always_ends_at_a_picture_is_not_accused(stage) -> None:
    """What it did not answer in play is not asked again as if it had been, and nothing is found."""
    played = stage(defences={"flaky": Flaky}, replay=EVERYTHING, limits=LENIENT)
    record = played.run()
    assert found(record) == {}
    assert judged(played, "flaky").achieved > 0.99


def test_a_defence_that_ends_itself_in_replays_is_found(stage) -> None:
    """It answered in play and ends when it is asked again, in whatever way: refused."""
    played = stage(defences={"refuses": Refuses}, replay=EVERYTHING, limits=LENIENT)
    record = played.run()
    assert found(record) == {"refuses": FindingKind.REFUSED}
    (finding,) = record.round.findings
    assert sessions(played, "refuses")[finding.steps[-1]].session.purpose == "as-in-play"
    covered = judged(played, "refuses")
    assert covered.refused > LENIENT.restarts
    assert (covered.decided, covered.achieved) == (0, 0.0)


def test_a_defence_that_ends_itself_at_the_first_look_is_found(stage) -> None:
    """Each session that looks into a mismatch has its own restarts; pictures that nobody suspects are refused too."""
    played = stage({"apart": apart}, {"shy": Shy}, replay=EVERYTHING, limits=LENIENT, epsilon=12)
    record = played.run()
    assert found(record) == {"shy": FindingKind.REFUSED}
    steps = sessions(played, "shy")
    assert judged(played, "shy").refused == 0
    bursts = [step for step in steps if step.session.purpose == "bursts"]
    triggers = [step for step in steps if step.session.purpose == "trigger"]
    controls = [step for step in steps if step.session.purpose == "trigger-control"]
    assert len(bursts) == diagnosis.BURST_SANDBOXES
    assert len(triggers) == len(controls) == non_responses.SESSION_PAIRS
    assert [[fault.code for fault in step.faults] for step in (*bursts, *triggers)] == [["died"] * 9] * (
        len(bursts) + len(triggers)
    )
    assert not any(step.faults for step in controls)
    (finding,) = record.round.findings
    assert [steps[number].session.purpose for number in finding.steps] == ["trigger"] * non_responses.SESSION_PAIRS


def test_restarts_of_a_look_are_bounded(stage) -> None:
    """With no restarts at all every session still asks one sandbox, and what comes after its end counts as faults."""
    limits = dataclasses.replace(LENIENT, restarts=0)
    played = stage({"apart": apart}, {"shy": Shy}, replay=EVERYTHING, limits=limits, epsilon=12)
    played.run()
    looked = [step for step in sessions(played, "shy") if step.session.purpose == "bursts"]
    assert len(looked) > 1
    for step in looked:
        assert [fault.code for fault in step.faults] == ["died", "gave-up"]
        assert len(step.sandboxes) == 1


def test_a_suspect_that_is_not_answered_again_is_not_waited_for(stage) -> None:
    """It ends itself at the suspect in the second of two contexts: nobody knows how long that took, and all goes on."""
    Crowded.ends = (0, 0)
    undisturbed = stage(defences={"crowded": Crowded}, replay=EVERYTHING, limits=LENIENT)
    assert found(undisturbed.run(devices=("GPU-aaaa",))) == {"crowded": FindingKind.STATE}
    _, second = [step for step in sessions(undisturbed, "crowded") if step.session.purpose == "context"][:2]
    asked = len(undisturbed.record.read_array(second, "rows"))
    Crowded.ends = (2 + second.step + 1, asked)
    played = stage(defences={"crowded": Crowded}, replay=EVERYTHING, limits=LENIENT)
    record = played.run(devices=("GPU-aaaa",))
    assert record.round.closed
    again = sessions(played, "crowded")
    assert record.read_array(again[second.step], "refused").nonzero()[0].tolist() == [asked - 1]
    assert again[second.step + 1].session.purpose != "delay"


def test_what_a_defence_stalls_at_is_asked_again_as_in_play(stage) -> None:
    """A few late answers prove nothing; a cheat may be among them, so they are asked again where it sees no replay."""
    played = doubled(stage(defences={"stalls": Stalls}, replay=EVERYTHING, epsilon=2))
    record = played.run()
    assert found(record) == {}
    covered = judged(played, "stalls")
    assert (covered.drawn, covered.mismatches, covered.refused) == (24, 0, 0)
    assert covered.late > 0
    assert (covered.decided, covered.achieved) == (24, 1.0)
    assert ExitReason.TIMED_OUT in {s.reason for job in played.sandboxes("stalls", Stage.REPLAY) for s in job}


def test_a_defence_that_never_starts_again_cannot_stop_the_round(stage) -> None:
    """Where no sandbox of a replay gets ready there is a session without a seed, one more try, and the round closes."""
    played = stage(replay=EVERYTHING)
    start = played.backend.start
    replays = [job.id for job in played.plan().jobs if job.stage is Stage.REPLAY]

    def stillborn(order):
        sandbox = start(order)
        if order.job in replays:
            sandbox.send = lambda _data, _deadline, _cancelled: False
            sandbox.receive = lambda _deadline: b""
        return sandbox

    played.backend.start = stillborn
    record = played.run()
    assert record.round.closed
    shuffled, twin, *again = sessions(played, "first")
    assert shuffled.session.seed is not None
    assert twin.session.seed is None
    assert again[0].session.seed is not None
    assert again[0].session.purpose == "as-in-play"
    covered = judged(played, "first")
    assert (covered.decided, covered.achieved) == (0, 0.0)


def test_a_pause_ends_when_the_operator_cancels(stage, monkeypatch) -> None:
    """A minute of silence in the middle of a session is cut short: the round ends at once, and can go on."""
    monkeypatch.setattr(diagnosis, "BURST_PAUSES", {diagnosis.BURST_LENGTH: 60.0})
    played = stage(defences={"cheat": Counts}, replay=EVERYTHING)
    event = played.setting.cancelled
    silent, wait = threading.Event(), event.wait

    def noted(seconds=None):
        silent.set()
        return wait(seconds)

    event.wait = noted
    cancel = threading.Thread(target=lambda: silent.wait(10) and event.set())
    cancel.start()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        played.run()
    cancel.join()
    assert silent.is_set()
    assert time.monotonic() - began < 10
    assert not played.record.round.closed


def test_a_replay_prefers_another_gpu(stage) -> None:
    """With two GPUs each defence is replayed on the one that it was not classified on."""
    played = stage(defences={"one": Defence, "two": Defence}, replay=EVERYTHING, isolation=Isolation.ROUND)
    played.run(devices=("GPU-aaaa", "GPU-bbbb"))
    ends = {(event.submission, event.stage): event.device for event in played.events("job_finished")}
    for defence in ("one", "two"):
        devices = {ends[defence, Stage.CLASSIFY], ends[defence, Stage.REPLAY]}
        assert devices == {"GPU-aaaa", "GPU-bbbb"}


def test_a_replay_is_played_where_there_is_one_gpu(stage) -> None:
    """On the only GPU a replay runs too."""
    played = stage(replay=EVERYTHING)
    record = played.run(devices=("GPU-aaaa",))
    assert record.round.closed
    assert {event.device for event in played.events("job_finished")} == {"GPU-aaaa"}
