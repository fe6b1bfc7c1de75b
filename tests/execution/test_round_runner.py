"""A round on the scripted backend: what is retried, what is scored, and what is kept apart."""

import os
import threading
import time

import numpy as np
import pytest

from orchestrator.domain.outcomes import FAULTED
from orchestrator.domain.plan import Cell, Stage
from orchestrator.domain.tasks import Isolation, Limits
from orchestrator.errors import JobsParked
from orchestrator.execution import job_steps
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.protocol import frames

NO_REPLAY = SamplingDesign(power=0.0)
KILL_EVERY = 1 if os.environ.get("SPARRING_SOAK") else 3
"""The steps after which a round is killed: each, or every so many."""


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """Retries wait in real rounds; here they need not."""
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _seconds: None)


def answers(record, defence="first", attack=None):
    """Returns one cell's answers."""
    return record.answers(defence, 12)[Cell(defence, attack)]


def test_a_round_is_played_to_its_end(stage) -> None:
    """Clean pictures are all classified, shifted ones all fooled, and the ledger closes."""
    played = stage()
    record = played.run()
    assert (answers(record) == np.arange(12) % 4).all()
    assert (answers(record, attack="shift") == (np.arange(12) + 1) % 4).all()
    assert record.round.closed
    assert record.round.findings == []
    assert played.backend.live == {None: 0}


def test_a_lost_start_is_tried_again_and_not_scored(stage) -> None:
    """The engine fails at every other start of a job: the answers are the same, and the failures are on record (X1).

    Starts are counted job by job: those of one that begins while another ends come between that one's.
    """
    smooth, bumpy = stage(), stage()

    def lose(what: str, _count: int) -> bool:
        jobs = [order.job for order in bumpy.backend.orders]
        return what == "start" and jobs.count(jobs[-1]) % 2 == 1

    bumpy.backend.lose = lose
    expected, found = smooth.run(), bumpy.run()
    for attack in (None, "shift"):
        assert (answers(expected, attack=attack) == answers(found, attack=attack)).all()
    failed = bumpy.events("attempt_failed")
    assert failed
    assert {event.code for event in failed} == {"sandbox-lost"}
    assert not any(step.faults for step in bumpy.events("step_finished"))


def test_a_sandbox_lost_in_mid_job_costs_only_the_step_in_flight(stage) -> None:
    """After a loss the finished steps stay; only the step in flight is asked again."""
    played = stage()
    played.backend.lose = lambda what, count: what == "question" and count == 2
    played.run()
    steps = [(event.job, event.step) for event in played.events("step_finished")]
    assert len(steps) == len(set(steps))
    # Three batches of the attack, one of them twice; 2 x 12 pictures; what the replays asked.
    again = sum(judged.asked for judged in played.events("replay_judged"))
    assert again > 12
    assert played.backend.questions == 3 + 1 + 24 + again


def test_jobs_that_fail_at_every_attempt_leave_the_round_open(stage) -> None:
    """After three attempts each their submissions wait; each is on record, nothing is scored."""
    played = stage()
    played.backend.lose = lambda what, _count: what == "start"
    with pytest.raises(JobsParked):
        played.run()
    assert len(played.events("attempt_failed")) == 3 * 2
    assert played.events("job_finished") == []
    played.backend.lose = lambda _what, _count: False
    played.setting.cancelled.clear()
    assert played.run().round.closed


def test_a_round_goes_on_from_its_ledger(stage) -> None:
    """A second run of a finished round asks nothing and adds nothing."""
    played = stage()
    played.run()
    asked, head = played.backend.questions, played.ledger.head
    played.run()
    assert (played.backend.questions, played.ledger.head) == (asked, head)


def test_two_entries_with_one_image_are_two_entries(stage) -> None:
    """A copy of somebody's image has its own jobs and its own cells, and takes nobody's."""
    played = stage(defences={"first": first(), "copy": first()}, images={"copy": "first"})
    record = played.run()
    for defence in ("first", "copy"):
        assert (answers(record, defence) == np.arange(12) % 4).all()


def first():
    """Returns the honest defence."""

    def classify(header, payload):
        size = len(payload) // header["shape"][0]
        labels = [payload[place * size] % 4 for place in range(header["shape"][0])]
        return frames.encode_frame({"type": "answers", "id": header["id"], "labels": labels})

    return classify


def test_no_two_live_sandboxes_share_a_gpu(stage) -> None:
    """Over a whole round with faults and replays, a GPU never has more than one live sandbox, and all are used."""

    def crashes(header, payload):
        return b"" if payload[0] % 5 == 0 else first()(header, payload)

    played = stage(defences={"first": first(), "crashes": crashes, "third": first()})
    played.run(devices=("GPU-aaaa", "GPU-bbbb"))
    assert played.backend.most == {"GPU-aaaa": 1, "GPU-bbbb": 1}
    assert {order.device for order in played.backend.orders} == {"GPU-aaaa", "GPU-bbbb"}


def test_the_next_sandbox_starts_ahead_on_a_processor(stage) -> None:
    """Without a GPU the next job's first sandbox may live while one plays, and that of a replay's next session."""

    def patient(header, payload):
        until = time.monotonic() + 2
        while played.backend.most[None] < 2 and time.monotonic() < until:
            time.sleep(0.005)
        return first()(header, payload)

    played = stage(defences={"first": patient, "second": patient, "third": patient}, replay=NO_REPLAY)
    played.run()
    assert played.backend.most[None] == 2
    played = stage(defences={"first": first(), "second": first(), "third": first()})
    played.run()
    assert played.backend.most[None] <= 4


def test_the_next_job_begins_while_a_sandbox_ends(stage) -> None:
    """On one slot, the sandbox of each defence but the last ends only when another defence was asked."""
    asked, waited, changed = [], [], threading.Condition()

    def recorded(name):
        def play(header, payload):
            with changed:
                asked.extend([name] if name not in asked else [])
                changed.notify_all()
            return first()(header, payload)

        return play

    defences = {name: recorded(name) for name in ("a", "b", "c")}
    played = stage(defences=defences, replay=NO_REPLAY, isolation=Isolation.ROUND)
    start = played.backend.start

    def start_and_end_late(order):
        sandbox = start(order)
        stop = sandbox.stop

        def stop_late():
            with changed:
                if order.image.name in asked[:2]:
                    place = asked.index(order.image.name)
                    waited.append(changed.wait_for(lambda: len(asked) > place + 1, timeout=20))
            return stop()

        sandbox.stop = stop_late
        return sandbox

    played.backend.start = start_and_end_late
    played.run()
    assert waited == [True, True]


def test_the_longest_replay_comes_first(stage) -> None:
    """The order of replays follows what the sandboxes of their submissions took; one of unknown cost comes last."""
    played = stage(defences={"first": first(), "second": first(), "third": first(), "unknown": first()})
    played.backend.cpu_seconds = {"first": 1.0, "second": 3.0, "third": 2.0}
    played.run()
    ends = played.events("job_finished")
    replayed = [end.submission for end in ends if end.stage is Stage.REPLAY and end.submission != "shift"]
    assert replayed == ["second", "third", "first", "unknown"]


@pytest.mark.parametrize(
    ("isolation", "sandboxes"), [(Isolation.ATTACK, 2), (Isolation.ROUND, 1), (Isolation.PICTURE, 24)]
)
def test_isolation_says_what_a_sandbox_sees(stage, isolation, sandboxes) -> None:
    """Per attack: a sandbox a cell; per round: one for all; per picture: one a question (contests.md)."""
    played = stage(isolation=isolation, replay=NO_REPLAY)
    played.run()
    assert sum(map(len, played.sandboxes("first", Stage.CLASSIFY))) == sandboxes


def test_under_isolation_per_attack_no_sandbox_sees_two_versions(stage) -> None:
    """A sandbox of the play is shown one version of each picture; a replay one of each first, all at its end."""
    seen: list[tuple[str, list[int]]] = []

    def far(header, payload):
        pixels = np.frombuffer(payload, np.uint8) + 100
        index = list(range(header["shape"][0]))
        answer = {"type": "candidates", "id": header["id"], "index": index, "dtype": "u8", "shape": header["shape"]}
        return frames.encode_frame(answer, pixels.astype(np.uint8).tobytes())

    # The picture number i has the value i, its adversarial version i + 100.
    played = stage({"far": far}, {"watching": first()}, replay=SamplingDesign(power=0.9999, cheat=0.01), epsilon=100)
    start = played.backend.start

    def start_and_note(order):
        sandbox = start(order)
        if order.image.name == "watching":
            values, play = [], sandbox._play
            seen.append((order.job, values))

            def note(header, payload):
                values.extend(payload[:1])  # `hello` has none
                return play(header, payload)

            sandbox._play = note
        return sandbox

    played.backend.start = start_and_note
    played.run()
    stages = {job.id: job.stage for job in played.plan().jobs}
    classified = [values for job, values in seen if stages[job] is Stage.CLASSIFY]
    assert len(classified) == 2
    for values in classified:
        assert len({value % 100 for value in values}) == len(set(values)) == 12
    shuffled, twin = (values for job, values in seen if stages[job] is Stage.REPLAY)
    assert set(shuffled) == {*range(12), *range(100, 112)}
    assert len({picture % 100 for picture in shuffled[:12]}) == 12
    ends = {picture: len(shuffled) - shuffled[::-1].index(picture) for picture in shuffled}
    assert all(shuffled.index(picture) < ends[picture + 100] for picture in range(12))
    assert twin in classified


def test_every_sandbox_of_a_defence_gets_a_fresh_seed(stage) -> None:
    """An attack's seed is the same in each of its sandboxes and on record; a defence's is never used twice."""
    played = stage(isolation=Isolation.PICTURE, replay=NO_REPLAY)
    played.run()
    attack = played.setting.attack_seed(played.setting.roster["shift"])
    others = [seed for seed in played.backend.seeds if seed != attack]
    assert played.backend.seeds.count(attack) == 1
    assert len(others) == len(set(others)) == 24


def test_a_defence_that_dies_at_every_question_is_asked_every_question(stage) -> None:
    """Each picture meets a fresh sandbox and is charged (A7); what bounds that is time, not a number of sandboxes."""
    played = stage(defences={"dies": lambda _header, _payload: b""}, replay=NO_REPLAY)
    record = played.run()
    assert (answers(record, "dies") == FAULTED).all()
    assert [len(job) for job in played.sandboxes("dies", Stage.CLASSIFY)] == [12, 12]
    faults = [fault for step in played.events("step_finished") for fault in step.faults]
    assert [(fault.code, fault.pictures) for fault in faults] == [("died", 1)] * 24


class Killed(BaseException):
    """The orchestrator's end."""


def faults(played) -> dict:
    """Returns the faults of every step; which job is played first may change with a kill."""
    return {(step.job, step.step): step.faults for step in played.events("step_finished")}


@pytest.mark.slow
def test_a_kill_loses_no_sandbox_that_a_step_had(stage, monkeypatch) -> None:
    """Killed right after any step, the round ends with the answers, faults and sandboxes of an undisturbed one.

    So a job whose last step was on record, and not its end, is complete.
    """
    monkeypatch.setattr(job_steps, "QUESTIONS_PER_STEP", 4)
    players = {"first": first(), "dies": lambda _header, _payload: b""}
    whole = stage(defences=players)
    expected = whole.run()
    steps = len(whole.events("step_finished"))
    assert steps == 3 + 4 * 3 + 2
    for count in range(0, steps, KILL_EVERY):
        left = iter(range(count))

        def watch(event, left=left) -> None:
            if event.kind == "step_finished" and next(left, None) is None:
                raise Killed

        again = stage(defences=players)
        with pytest.raises(Killed):
            again.run(watch=watch)
        found = again.go_on()
        for name in ("shift", *players):
            assert len(found.round.sandboxes_of(name)) == len(expected.round.sandboxes_of(name)), (count, name)
        for name in players:
            assert (answers(found, name) == answers(expected, name)).all()
        assert faults(again) == faults(whole)
    assert [len(job) for job in whole.sandboxes("dies", Stage.CLASSIFY)] == [12, 12]


@pytest.mark.slow
def test_silence_is_a_deadline(stage) -> None:
    """A defence that never answers costs its time limit per question and is a `deadline` fault (A7)."""
    played = stage(defences={"mute": lambda _header, _payload: None}, replay=NO_REPLAY)
    record = played.run()
    assert (answers(record, "mute") == FAULTED).all()
    codes = [fault.code for step in played.events("step_finished") for fault in step.faults]
    assert codes == ["deadline"] * 2 * 12


def test_replays_are_chosen_after_play(stage) -> None:
    """The ledger's head is noted once everything is classified, before any replay."""
    played = stage()
    played.run()
    kinds = [(e.event.kind, getattr(e.event, "stage", None)) for e in played.ledger.read()]
    closed = kinds.index(("play_closed", None))
    assert all(stage is not Stage.REPLAY for _, stage in kinds[:closed])
    assert not any(stage is Stage.CLASSIFY for _, stage in kinds[closed:])


def test_large_batches_are_asked_in_batches(stage) -> None:
    """`classify_batch` pictures go into one question, the rest into a smaller one."""
    limits = Limits(perturb_batch=12, classify_batch=5, classify_seconds=1, perturb_seconds=1)
    played = stage(limits=limits, replay=NO_REPLAY)
    record = played.run()
    assert played.backend.questions == 1 + 2 * 3
    assert (answers(record) == np.arange(12) % 4).all()
