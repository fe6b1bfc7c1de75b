"""Jobs played where each process has one player and no other: what is finished and what is half played goes on.

As in the pods of a cluster: every job is assigned, as JSON, with what it reads of the record and nothing else.
"""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from orchestrator.domain import events
from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.findings import FindingKind
from orchestrator.domain.ids import JobId
from orchestrator.domain.plan import Cell, Job, Stage
from orchestrator.domain.tasks import Isolation
from orchestrator.errors import PodUsedUp, StoreFault
from orchestrator.execution import job_steps, query_steps
from orchestrator.execution.job_runner import JobRunner
from orchestrator.execution.round_runner import RoundRunner
from orchestrator.integrity import diagnosis
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.ledger.read_model import RoundView
from orchestrator.protocol import frames

from .cheats import (
    EVERYTHING,
    JUNK,
    LENIENT,
    Counts,
    Defence,
    Late,
    Refuses,
    SeededAttack,
    Shy,
    apart,
    chatty,
    malformed,
)
from .conftest import EMPTY, Brighten, first_value, shift


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Bursts and waits take no time."""
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _seconds: None)
    monkeypatch.setattr(diagnosis, "BURST_PAUSES", {diagnosis.BURST_LENGTH: 0.002, 2 * diagnosis.BURST_LENGTH: 0.002})
    monkeypatch.setattr(diagnosis, "MAX_WAIT_SECONDS", 0.01)


class Once:
    """An attack that answers one question and then ends; each sandbox has one of its own."""

    def __init__(self, seed: int) -> None:
        self.asked = 0

    def __call__(self, header, payload):
        """Answers the first question."""
        self.asked += 1
        return shift(header, payload) if self.asked == 1 else EMPTY


class Tires(Defence):
    """A defence that ends at every third question of a sandbox, and answers honestly otherwise."""

    def reply(self, header, value):
        """Answers twice."""
        return EMPTY if self.turn == 3 else super().reply(header, value)


class Coward(Defence):
    """A defence that ends whenever it is asked about a dark picture."""

    def reply(self, header, value):
        """Answers about bright ones."""
        return EMPTY if value < 3 else super().reply(header, value)


def never_ready(header, payload):
    """A defence whose every question is its last."""
    return EMPTY


def abstains(header, payload):
    """A defence that has no opinion."""
    return frames.encode_frame({"type": "answers", "id": header["id"], "labels": [None] * header["shape"][0]})


class OnePlayer:
    """A backend with one player in its life; everything else is passed on."""

    def __init__(self, backend: Any) -> None:
        self._backend, self._spent = backend, False

    def __getattr__(self, name: str) -> Any:
        """Passes on."""
        return getattr(self._backend, name)

    def start(self, order: Any) -> Any:
        """Starts the one."""
        if self._spent:
            raise PodUsedUp("spent")
        self._spent = True
        return self._backend.start(order)


@dataclass
class Pods:
    """An engine in which every attempt at a job is a process of its own: all it has is an assignment's JSON text."""

    setting: Any
    attempts: dict[str, int] = field(default_factory=dict)
    halves: list[PartialStep] = field(default_factory=list)

    def run(self, plan, done, perform, suits=None) -> Iterator[tuple[events.Event, ...]]:
        """Yields what happens until the plan is done."""
        agenda = plan.ready_queue(done)
        while (job := agenda.take()) is not None:
            half = None
            for _ in range(200):
                happened, half, finished = self._pod(perform(job, None).assignment(half).model_dump_json())
                yield from happened
                self.attempts[job.id] = self.attempts.get(job.id, 0) + 1
                if finished:
                    break
            else:
                raise AssertionError(f"{job} does not come to an end")
            agenda.mark_finished(job.id)

    def _pod(self, text: str) -> tuple[list[tuple[events.Event, ...]], PartialStep | None, bool]:
        assigned = Assignment.model_validate_json(text)
        record = RoundView(self.setting.blobs, assigned.events)
        planned = record.round.jobs[assigned.job]
        cells = tuple(Cell(cell.defence, cell.attack) for cell in planned.cells)
        job = Job(JobId(planned.id), planned.stage, planned.submission, cells, keys=planned.keys)
        images = {each.digest: each for each in self.setting.images.values()}
        found = {planned.submission: images[assigned.image]}
        if assigned.attack_image:
            found[cells[0].attack] = images[assigned.attack_image]
        backends = [OnePlayer(self.setting.backend) for _ in range(2)]
        setting = replace(
            self.setting,
            backend=backends[0],
            attack_backend=backends[1],
            images=found,
            roster=record.round.roster,
        )
        happened: list[tuple[events.Event, ...]] = []
        performance = JobRunner(job, setting, record, None, assigned.partial_step)
        try:
            performance.run(lambda *new: happened.append(new))
        except PodUsedUp:
            if performance.partial_step:
                self.halves.append(performance.partial_step)
            return happened, performance.partial_step, False
        return happened, None, True


def played_in_pods(played) -> Pods:
    """Plays a round in pods, into its ledger."""
    pods = Pods(played.setting)
    dispatcher = RoundRunner(
        played.setting, played.ledger, played.record, lambda: "2026-03-01T08:00:00.000+00:00", lambda _event: None
    )
    dispatcher.open_round({"contest": "test", "isolation": played.setting.isolation.value})
    dispatcher.run(pods, played.cells())
    return pods


_MEASURED = {"attack_seconds", "fault_seconds", "at", "device", "seconds", "wall_seconds"}


def told(played) -> list[Any]:
    """Returns everything in the ledger but what is measured, each job's entries together."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items() if key not in _MEASURED}
        return [plain(each) for each in value] if isinstance(value, list) else value

    bodies = [plain(json.loads(entry.event.model_dump_json())) for entry in played.ledger.read()]
    for body in bodies:
        body.pop("head", None)
        body.pop("answers_digest", None)
    return sorted(bodies, key=lambda body: (body.get("job", ""), json.dumps(body, sort_keys=True)))


def shift_and_talk(header, payload):
    """An attack that writes a line behind its candidates."""
    return shift(header, payload) + JUNK


ROUNDS = {
    "honest": {},
    "attacks that end": {"attacks": {"once": Once, "seeded": SeededAttack}, "replay": SamplingDesign(attacks=1.0)},
    "defences that end": {"defences": {"tires": Tires, "coward": Coward, "never": never_ready, "none": abstains}},
    "a question a sandbox": {"defences": {"first": first_value, "coward": Coward}, "isolation": Isolation.PICTURE},
    "output behind replies": {
        "attacks": {"talks": shift_and_talk},
        "defences": {"chatty": chatty, "late": Late, "malformed": malformed},
        "replay": EVERYTHING,
    },
    "output behind the only reply": {
        "defences": {"chatty": chatty, "malformed": malformed},
        "isolation": Isolation.PICTURE,
    },
    "a sandbox a round": {"defences": {"tires": Tires, "first": first_value}, "isolation": Isolation.ROUND},
    "a counter is found": {"defences": {"counts": Counts, "first": first_value}, "replay": EVERYTHING},
    "bursts are refused": {
        "attacks": {"apart": apart},
        "defences": {"shy": Shy, "first": first_value},
        "replay": EVERYTHING,
        "epsilon": 12,
    },
    "defences are queried": {
        "attacks": {},
        "organizer_attacks": [Brighten(first=9)],
        "defences": {"tires": Tires, "coward": Coward, "never": never_ready, "first": first_value},
    },
    "a refusal is found": {"defences": {"refuses": Refuses, "first": first_value}, "replay": EVERYTHING},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUNDS)
def test_pods_play_what_the_local_engine_plays(stage, name) -> None:
    """The same ledger entry for entry, measured times aside: steps, answers, faults, sandboxes, seeds, findings."""
    here, there = (stage(**ROUNDS[name], limits=LENIENT) for _ in range(2))
    here.run(devices=("GPU-0",))  # where no sandbox is started ahead, as in a pod
    played_in_pods(there)
    assert told(there) == told(here)
    assert there.record.round.closed


def test_a_step_is_carried_from_pod_to_pod(stage) -> None:
    """A defence that ends at every third question has pods of two and a fault, and one step on record, as anywhere."""
    played = stage(attacks={}, defences={"tires": Tires}, limits=LENIENT, replay=SamplingDesign(power=0))
    pods = played_in_pods(played)
    [job] = played.plan().jobs
    assert pods.attempts == {job.id: 6}
    carried = [(half.step, half.completed, half.singles_left, len(half.sandboxes)) for half in pods.halves]
    assert carried == [(0, 2 * pod, 1, pod) for pod in range(1, 6)]
    [step] = played.events("step_finished")
    assert [(fault.code, fault.pictures) for fault in step.faults] == [("died", 0)] * 5
    assert len(step.sandboxes) == 6


def test_a_counter_is_caught_in_pods(stage) -> None:
    """The comparison above is no comparison of nothing: here is what is found."""
    played = stage(**ROUNDS["a counter is found"], limits=LENIENT)
    played_in_pods(played)
    assert {finding.submission: finding.kind for finding in played.record.round.findings} == {
        "counts": FindingKind.STATE
    }


def test_an_assignment_holds_no_other_defence(stage) -> None:
    """A driver is told of the players that its job reads of, and of nobody else."""
    played = stage(attacks={"shift": shift, "other": shift}, defences={"first": first_value, "second": first_value})
    played.run()
    job = next(job for job in played.plan().jobs if job.stage is Stage.CLASSIFY and job.cells[0].attack == "other")
    assignment = JobRunner(job, played.setting, played.record, None).assignment()
    named = {event.submission for event in assignment.events if isinstance(event, events.StepFinished)}
    assert named == {"other", job.submission}
    admitted = {event.id for event in assignment.events if isinstance(event, events.SubmissionAdmitted)}
    assert admitted == {"other", job.submission}


def test_a_second_start_is_tried_once_and_no_attempt_fails(stage):
    """Finished steps are handed out, the fault among them; PodUsedUp comes at once; another pod finishes the job."""
    played = stage(attacks={"once": Once})
    job = next(job for job in played.plan().jobs if job.stage is Stage.PERTURB)
    happened = []
    played.backend.lose = lambda what, count: what == "start" and count > 1 and PodUsedUp("spent")
    with pytest.raises(PodUsedUp):
        JobRunner(job, played.setting, played.record, None).run(lambda *new: happened.extend(new))
    assert len(played.backend.orders) == 2
    assert [event.kind for event in happened] == ["step_finished"] * 2
    assert [[fault.code for fault in event.faults] for event in happened] == [[], ["died"]]

    played.backend.lose = lambda what, count: False
    record = RoundView(played.setting.blobs, happened)
    JobRunner(job, played.setting, record, None).run(lambda *new: happened.extend(new))
    assert [event.kind for event in happened] == [*["step_finished"] * 3, "job_finished"]
    assert [event.step for event in happened[:3]] == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("which", Stage)
def test_a_step_that_could_not_be_kept_is_played_again(stage, monkeypatch, which):
    """The volume fails once, at any step that is handed out before the job's end: none is missing from the record."""
    monkeypatch.setattr(job_steps, "QUESTIONS_PER_STEP", 4)
    defence = Counts if which is Stage.REPLAY else Defence
    monkeypatch.setattr(query_steps, "PICTURES_PER_STEP", 4)
    queries = {"attacks": {}, "organizer_attacks": [Brighten()]} if which is Stage.QUERY else {}
    played = stage(defences={"defence": defence}, replay=EVERYTHING, limits=LENIENT, **queries)
    played.run(devices=("GPU-0",))
    job = next(job for job in played.plan().jobs if job.stage is which)
    told = [entry.event for entry in played.ledger.read()]
    whole = [event for event in told if getattr(event, "job", None) == job.id and event.kind == "step_finished"]
    before = told[: told.index(whole[0])]
    for place in range(len(whole) - (which is not Stage.REPLAY)):  # whose last step is known, and kept with the end
        happened = _handed_out(JobRunner(job, played.setting, RoundView(played.setting.blobs, before), "GPU-0"), place)
        _is_whole(happened, whole)


def _handed_out(performance, place):
    """Returns what a job hands out where it cannot be kept once."""
    happened, calls = [], itertools.count()

    def emit(*new):
        if next(calls) == place:
            raise StoreFault("no space left on the volume")
        happened.extend(new)

    performance.run(emit)
    return happened


def _is_whole(happened, whole):
    """Asserts that a job's events are those of an undisturbed one, but for one attempt more."""
    assert [event.code for event in happened if event.kind == "attempt_failed"] == ["store"]
    steps = [event for event in happened if event.kind == "step_finished"]
    assert [step.step for step in steps] == list(range(len(whole)))
    assert happened[-1].kind == "job_finished"
    assert [_rows(step) for step in steps] == [_rows(step) for step in whole]
    sandboxes = sum(len(event.sandboxes) for event in (*steps, happened[-1]))
    assert sandboxes == sum(len(event.sandboxes) for event in whole) + 1


def _rows(step):
    """Returns the digest of what a step came to."""
    return next(step.blobs[name] for name in ("rows", "candidates", "checked_rows") if name in step.blobs)


def test_a_sandbox_that_was_lost_is_carried_over(stage):
    """The one player is lost: no attempt is left here, and the next process has it on record with its first step."""
    played = stage(attacks={"shift": shift})
    job = next(job for job in played.plan().jobs if job.stage is Stage.PERTURB)
    setting = replace(played.setting, backend=OnePlayer(played.backend))
    played.backend.lose = lambda what, count: what == "question" and count == 2
    happened = []
    performance = JobRunner(job, setting, played.record, None)
    with pytest.raises(PodUsedUp):
        performance.run(lambda *new: happened.extend(new))
    assert [event.kind for event in happened] == ["step_finished", "attempt_failed"]
    assert performance.partial_step is not None
    assert (
        performance.partial_step.step,
        performance.partial_step.completed,
        len(performance.partial_step.sandboxes),
    ) == (1, 0, 1)
    played.backend.lose = lambda what, count: False
    record = RoundView(played.setting.blobs, happened)
    half = PartialStep.model_validate_json(performance.partial_step.model_dump_json())
    JobRunner(job, played.setting, record, None, half).run(lambda *new: happened.extend(new))
    assert [len(event.sandboxes) for event in happened if event.kind == "step_finished"] == [0, 1, 1]
