"""Query jobs played where each process has one attack and one defence, and no other: a step begins again and goes on.

As in the pods of a cluster. Whichever of the two has to be replaced, the other one comes fresh as well.
"""

import json
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from orchestrator.domain.access import Access, AccessKind
from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.outcomes import Forfeit
from orchestrator.domain.plan import Cell, Stage
from orchestrator.domain.queries import QueryFailure
from orchestrator.errors import GaveUp, PodUsedUp
from orchestrator.execution.job_runner import JobRunner
from orchestrator.execution.query_sample import checked_questions
from orchestrator.executors.kubernetes.failed_start import FailedStartBackend
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import get_array
from orchestrator.protocol import frames

from .cheats import EVERYTHING, LENIENT, Defence
from .conftest import EMPTY, first_value
from .test_one_player_per_process import Coward, OnePlayer, Tires, never_ready, played_in_pods, told
from .test_query_broker import Asks, Climbs, EndsAtFive, Hangs, Slope

DECISIONS = Access(AccessKind.DECISION, queries=3, batch=4)
LIMITS = replace(LENIENT, classify_batch=2, classify_seconds=30, perturb_seconds=60, ready_seconds=60, restarts=2)
NO_REPLAYS = SamplingDesign(power=0)


class AsksAll(Asks):
    """An attack that asks about all pictures of a question at once, brightens those that are read, and asks again."""

    def query(self):
        """Asks about all."""
        self.asked += 1
        header = {"type": "query", "id": self.header["id"], "want": "decision"}
        shape = self.header["shape"]
        whole = header | {"for": [*range(shape[0])], "dtype": "u8", "shape": shape}
        return frames.encode_frame(whole, self.pixels.tobytes())

    def heard(self, header):
        """Asks twice, and delivers."""
        if self.asked == 2:
            return self.deliver()
        for place, (label, truth) in enumerate(zip(header["labels"], self.header["labels"], strict=True)):
            self.pixels[place, 0, 0, 0] += label == truth
        return self.query()


class EndsInMidQuestion(Asks):
    """An attack that ends at the answer to its second query in its second question; each sandbox has one of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.questions = 0

    def __call__(self, header, payload):
        """Plays."""
        self.questions += header["type"] == "perturb"
        return super().__call__(header, payload)

    def heard(self, header):
        """Ends, or goes on."""
        return EMPTY if (self.questions, self.place, self.asked) == (2, 0, 2) else super().heard(header)


class Scores(Defence):
    """A defence that gives scores, and ends at its third question."""

    gives: ClassVar[list[str]] = ["label", "scores"]

    def __call__(self, header, payload):
        """Answers with scores that differ from picture to picture."""
        self.turn += 1
        if self.turn == 3:
            return EMPTY
        firsts = np.frombuffer(payload, np.uint8).reshape(header["shape"][0], -1)[:, 0]
        values = np.eye(4, dtype="<f4")[firsts % 4] * (1 + firsts[:, None] / 100)
        answer = {"type": "answers", "id": header["id"], "labels": [int(value) % 4 for value in firsts]}
        return frames.encode_frame(
            answer | {"scores": True, "dtype": "f32", "shape": list(values.shape)}, values.astype("<f4").tobytes()
        )


def played(stage, attacks, defences, **changes):
    """Returns a round that was played by the local engine, and the same one that was played in pods."""
    settings = {"limits": LIMITS, "replay": NO_REPLAYS, "access": DECISIONS, **changes}
    here, there = (stage(attacks=attacks, defences=defences, **settings) for _ in range(2))
    here.run(devices=("GPU-0",))
    return here, there, played_in_pods(there)


def of_defences(played) -> list:
    """Returns everything in the ledger but what is measured and the attacks' sandboxes."""
    bodies = told(played)
    for body in bodies:
        if isinstance(body.get("sandboxes"), list):
            body["sandboxes"] = [each for each in body["sandboxes"] if not each["submission"]]
    return sorted(bodies, key=lambda body: (body.get("job", ""), json.dumps(body, sort_keys=True)))


def outcome(played, defence, attack):
    """Returns what was made for a defence, what it was asked, and what it answered in the end."""
    cell = Cell(defence, attack)
    made, asked = played.record.cell_examples(cell), played.record.query_record(cell)
    arrays = (made.pixels, made.forfeits, asked.queries, asked.fooled_at, asked.failures)
    return [*(each.tolist() for each in arrays), played.record.answers(defence, 12)[cell].tolist()]


DEFENCES = {"first": first_value, "tires": Tires, "coward": Coward, "five": EndsAtFive, "never": never_ready}


@pytest.mark.slow
@pytest.mark.parametrize("attack", [Asks, AsksAll])
def test_pods_of_two_play_what_the_local_engine_plays(stage, attack) -> None:
    """The same ledger entry for entry, but for measured times and how many sandboxes the attack had."""
    here, there, pods = played(stage, {"asks": attack}, DEFENCES)
    assert of_defences(there) == of_defences(here)
    queries = {job.submission: pods.attempts[job.id] for job in there.plan().jobs if job.stage is Stage.QUERY}
    assert min(queries["tires"], queries["coward"], queries["five"]) > queries["first"]
    assert there.record.round.closed


@pytest.mark.slow
def test_queries_are_asked_again_in_pods(stage) -> None:
    """Each of the questions that are asked again has a pod of its own, and the same answers are on record."""
    replay = SamplingDesign(power=0.2, cheat=0.5)
    here, there, pods = played(stage, {"asks": Asks}, {"first": first_value, "five": EndsAtFive}, replay=replay)
    assert of_defences(there) == of_defences(here)
    [job] = [job for job in there.plan().jobs if (job.stage, job.submission) == (Stage.QUERY, "first")]
    assert pods.attempts[job.id] == 1 + checked_questions(LIMITS.classify_batch)


def test_scores_are_carried_to_the_next_pod(stage) -> None:
    """The attack hears the same scores of what was asked before, to the last bit."""

    class WantsScores(AsksAll):
        def query(self):
            return super().query().replace(b'"decision"', b'"scores"  ')

    heard = []

    class Hears(WantsScores):
        def __call__(self, header, payload):
            if header["type"] == "reply":
                heard.append((self.asked, self.header["id"], payload))
                header = header | {"labels": self.header["labels"]}
            return super().__call__(header, payload)

    access = replace(DECISIONS, kind=AccessKind.SCORES)
    _, there, pods = played(stage, {"hears": Hears}, {"scores": Scores}, access=access)
    assert max(pods.attempts.values()) > 2
    assert all(payload for _, _, payload in heard)
    assert not there.record.round.fault_counts("hears")


class ClimbsTwice(Climbs):
    """Asks for the gradients of a question twice, the second time one step along them."""

    def heard(self, header):
        """Asks again, or delivers."""
        if self.asked == 2:
            return self.deliver()
        self.asked, self.pixels = 2, self.pixels + np.uint8(1)
        return self.query()


@pytest.mark.slow
def test_gradients_are_carried_to_the_next_pod(stage) -> None:
    """A defence that ends at some pictures loses those, whoever goes on; a query that was answered is not asked again.

    The attack hears the same gradients, to the last bit.
    """
    access = Access(AccessKind.GRADIENT, queries=4, batch=4, gradient_price=2)
    Climbs.heard_values.clear()
    here, there, pods = played(stage, {"climbs": ClimbsTwice}, {"slope": Slope}, access=access)
    assert of_defences(there) == of_defences(here)
    assert max(pods.attempts.values()) > 2
    assert outcome(there, "slope", "climbs")[4].count(QueryFailure.FAULTED) == 2  # 5 itself, and 4 after its step
    here_heard, there_heard = Climbs.heard_values[:6], Climbs.heard_values[6:]
    assert len(there_heard) > 6
    assert {values.tobytes() for values in here_heard} == {values.tobytes() for values in there_heard}


def test_each_of_two_players_has_a_gpu_of_its_own(stage) -> None:
    """The defence has the slot's GPU, the attack the one beside it; in judgement the defence has the slot's."""
    settings = {"limits": LIMITS, "replay": NO_REPLAYS, "access": DECISIONS}
    here = stage(attacks={"asks": Asks}, defences={"first": first_value}, **settings)
    here.setting = replace(here.setting, attack_devices={"GPU-0": "GPU-1"})
    here.run(devices=("GPU-0",))
    devices = {(order.job.endswith("-attack"), order.device) for order in here.backend.orders}
    assert devices == {(True, "GPU-1"), (False, "GPU-0")}


def test_an_attack_that_ends_costs_only_itself(stage) -> None:
    """Its question is lost as on one machine; the defence comes fresh, has no fault, and no time is charged to it."""
    here, there, pods = played(stage, {"ends": EndsInMidQuestion}, {"first": first_value})
    assert outcome(there, "first", "ends") == outcome(here, "first", "ends")
    forfeits = np.array(outcome(there, "first", "ends")[1])
    assert (forfeits == Forfeit.MISSING).tolist() == [4 <= place < 8 for place in range(12)]
    [job] = [job for job in there.plan().jobs if job.stage is Stage.QUERY]
    assert pods.attempts[job.id] == 2
    assert not there.record.round.fault_counts("first")
    faults = there.record.round.fault_counts("ends").items()
    assert [(code, times) for (code, _), (times, _) in faults] == [("died", 1)]
    assert [step.fault_seconds for step in there.events("step_finished") if step.job == job.id] == [0, 0, 0]
    assert not any(half.replacement_due for half in pods.halves)


@pytest.mark.slow
def test_an_attack_that_hangs_with_a_query_behind_it_costs_only_itself(stage) -> None:
    """Each of its questions ends at its deadline, in a pod of its own; the defence answered and has no fault."""
    limits = replace(LIMITS, perturb_seconds=0.3)
    here, there, pods = played(stage, {"hangs": Hangs}, {"first": first_value}, limits=limits)
    assert outcome(there, "first", "hangs") == outcome(here, "first", "hangs")
    [job] = [job for job in there.plan().jobs if job.stage is Stage.QUERY]
    assert pods.attempts[job.id] == 3
    assert {code for code, _ in there.record.round.fault_counts("hangs")} == {"deadline"}
    assert not there.record.round.fault_counts("first")


class Wanders(Asks):
    """An attack that asks something else in every sandbox."""

    number: int  # set by the scripted backend

    def query(self):
        """Asks about pictures that carry the number of the sandbox."""
        self.pixels[self.place, 0, 1, 1] = self.number
        return super().query()


def test_an_attack_that_asks_something_else_is_answered_by_the_defence(stage) -> None:
    """What was answered to another query is told to nobody; after so many such starts the defence is not asked more."""
    there = stage(
        attacks={"wanders": Wanders},
        defences={"five": EndsAtFive},
        limits=LIMITS,
        replay=NO_REPLAYS,
        access=DECISIONS,
        epsilon=200,
    )
    pods = played_in_pods(there)
    [job] = [job for job in there.plan().jobs if job.stage is Stage.QUERY]
    halves = [half for half in pods.halves if "failures" in half.blobs]
    assert [half.divergences for half in halves] == [0, 1, 2]
    assert pods.attempts[job.id] == len(halves) + 1
    asked = there.record.query_record(Cell("five", "wanders"))
    assert asked.failures[:4].tolist() == [QueryFailure.NONE] * 4
    assert asked.failures[5:].tolist() == [QueryFailure.NOT_PLAYED] * 7
    faults = [fault for step in there.events("step_finished") if step.job == job.id for fault in step.faults]
    assert [fault.code for fault in faults if fault.code == GaveUp.code]
    assert "begin again 3 times" in next(fault.message for fault in faults if fault.code == GaveUp.code)
    assert not there.record.round.fault_counts("wanders")
    assert there.record.round.closed


def test_a_lost_attack_takes_nothing_of_the_record_with_it(stage) -> None:
    """A fault of ours before anything was asked: the next process has the sandboxes, and what an earlier one asked."""
    there = stage(attacks={"asks": Asks}, defences={"tires": Tires}, limits=LIMITS, replay=NO_REPLAYS, access=DECISIONS)
    [job] = [job for job in there.plan().jobs if job.stage is Stage.QUERY]
    happened, half = [], None

    def pod(lost_at: int | None):
        started = len(there.backend.orders)
        there.backend.lose = lambda what, count: what == "start" and count - started == lost_at
        setting = replace(there.setting, backend=OnePlayer(there.backend), attack_backend=OnePlayer(there.backend))
        runner = JobRunner(job, setting, RoundView(there.setting.blobs, happened), None, half)
        with pytest.raises(PodUsedUp):
            runner.run(lambda *new: happened.extend(new))
        return PartialStep.model_validate_json(runner.partial_step.model_dump_json())

    half = pod(None)
    assert half.completed == 2
    assert half.replacement_due
    again = pod(1)  # its attack does not start
    assert again == half
    assert [event.kind for event in happened if event.kind != "attempt_failed"] == []


@pytest.mark.parametrize("refused", ["asks", "first"])
def test_a_player_that_is_never_started_is_alone_at_fault(stage, refused) -> None:
    """Without the attack its pictures are missing; without the defence each picture is lost to it. Nobody starts."""
    there = stage(
        attacks={"asks": Asks}, defences={"first": first_value}, limits=LIMITS, replay=EVERYTHING, access=DECISIONS
    )
    [job] = [job for job in there.plan().jobs if job.stage is Stage.QUERY]
    unstarted = FailedStartBackend(there.backend, "a file at /tmp")
    setting = replace(there.setting, backend=unstarted, attack_backend=unstarted, unstarted=refused)
    happened = []
    JobRunner(job, setting, there.record, None).run(lambda *new: happened.extend(new))
    assert not there.backend.orders
    steps = [event for event in happened if event.kind == "step_finished"]
    made = [step for step in steps if "candidates" in step.blobs]
    blobs = there.setting.blobs
    forfeits = np.concatenate([get_array(blobs, step.blobs["forfeits"]) for step in made])
    failures = np.concatenate([get_array(blobs, step.blobs["failures"]) for step in made])
    assert len(forfeits) == 12
    assert set(forfeits.tolist()) == {Forfeit.MISSING if refused == "asks" else Forfeit.NONE}
    assert set(failures.tolist()) == {QueryFailure.NONE if refused == "asks" else QueryFailure.NOT_PLAYED}
    faults = [fault for step in steps for fault in step.faults]
    assert {fault.submission for fault in faults} == {"asks" if refused == "asks" else ""}
    assert "died" in {fault.code for fault in faults}
    assert happened[-1].kind == "job_finished"
