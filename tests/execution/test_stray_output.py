"""Output behind a player's last reply: on record as a fault, never a picture's, whatever the order and the timing."""

import time
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.domain.exit_reasons import ExitReason
from orchestrator.domain.outcomes import FAULTED
from orchestrator.domain.plan import Cell
from orchestrator.domain.tasks import Isolation
from orchestrator.execution.player import Player
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.protocol import frames
from orchestrator.protocol.messages import Role
from orchestrator.protocol.session import Session
from orchestrator.sandboxes.base import Ending, Exit

from .cheats import EVERYTHING, JUNK, LENIENT, MARKED, Defence, Late, chatty, labels, malformed
from .conftest import ScriptedPool, first_value, shift

NO_REPLAY = SamplingDesign(power=0.0)


def faults(played, submission):
    """Returns code and pictures of a submission's faults on record, in order."""
    steps = [step for step in played.events("step_finished") if step.submission == submission]
    return [(fault.code, fault.pictures) for step in steps for fault in step.faults]


def answers(record, defence="first", attack=None):
    """Returns the answers in one cell."""
    return record.answers(defence, 12)[Cell(defence, attack)]


def under(played, **changes):
    """Changes a round's setting before it is played."""
    played.setting = replace(played.setting, **changes)
    return played


@pytest.mark.parametrize("isolation", list(Isolation))
@pytest.mark.parametrize("secret", range(6))
def test_output_behind_an_answer_costs_no_picture(stage, secret, isolation) -> None:
    """In every order every picture keeps its answer, also the one asked next; the fault is on record all the same."""
    played = under(stage({}, {"first": chatty}, isolation=isolation, replay=NO_REPLAY), secret=bytes([secret]) * 32)
    record = played.run()
    assert (answers(record) == np.arange(12) % 4).all()
    assert faults(played, "first") == [("flood", 0)]


@pytest.mark.parametrize("secret", range(6))
def test_output_that_arrives_behind_the_next_question_costs_it_nothing(stage, secret) -> None:
    """Late bytes look like a malformed reply to the next question: a fresh player is asked that one."""
    played = under(stage({}, {"first": Late}, replay=NO_REPLAY), secret=bytes([secret]) * 32)
    record = played.run()
    [step] = played.events("step_finished")
    last = record.read_array(step, "rows")[-1, 1]
    assert (answers(record) == np.arange(12) % 4).all()
    assert faults(played, "first") == ([] if last == MARKED else [("protocol", 0)])


@pytest.mark.parametrize("secret", range(6))
def test_a_malformed_reply_is_charged_to_its_picture_alone(stage, secret) -> None:
    """Whether its player had answered before or not, the picture is charged, once."""
    played = under(stage({}, {"first": malformed}, replay=NO_REPLAY), secret=bytes([secret]) * 32)
    record = played.run()
    assert np.flatnonzero(answers(record) == FAULTED).tolist() == [MARKED]
    assert faults(played, "first") in ([("protocol", 1)], [("protocol", 0), ("protocol", 1)])


def test_output_behind_ready_is_charged_to_the_first_question(stage) -> None:
    """A player that answered nothing cannot have written behind an answer: each picture that it meets first is lost."""

    def starts_badly(header, payload):
        return JUNK + first_value(header, payload)

    played = stage({}, {"first": starts_badly}, replay=NO_REPLAY)
    record = played.run()
    assert (answers(record) == FAULTED).all()
    assert {pictures for _, pictures in faults(played, "first")} == {1}


def test_an_attack_keeps_every_batch(stage) -> None:
    """What an attack writes behind its last candidate of a batch, the round's last included, costs no batch."""

    def attack(header, payload):
        return shift(header, payload) + JUNK

    played = stage({"shift": attack}, replay=NO_REPLAY)
    record = played.run()
    assert (record.adversarial_examples("shift").forfeits == 0).all()
    assert faults(played, "shift") == [("flood", 0)] * 3


def test_a_candidate_behind_the_first_is_the_questions_own(stage) -> None:
    """Once a question has a candidate, what comes is its own: the rest of the batch is missing, as ever (A15)."""

    def attack(header, payload):
        size = len(payload) // header["shape"][0]
        shape = [1, *header["shape"][1:]]
        one = {"type": "candidates", "id": header["id"], "index": [0], "dtype": "u8", "shape": shape}
        return frames.encode_frame(one, payload[:size]) + (JUNK if payload[0] else shift(header, payload))

    played = stage({"shift": attack}, replay=NO_REPLAY)
    record = played.run()
    assert (record.adversarial_examples("shift").forfeits != 0).sum() == 9
    assert [code for code, _ in faults(played, "shift")] == ["protocol"] * 3


def test_half_a_frame_is_no_deadline_of_the_next_picture(stage) -> None:
    """What looks like the beginning of a long reply, and is the end of the last one, keeps no picture waiting."""

    class HalfFrame(Late):
        """Sends the beginning of a frame behind one answer, and nothing that completes it."""

        def __call__(self, header, payload):
            before, self.left = self.left, payload[0] == MARKED
            return b"SPI1" if before else first_value(header, payload)

    played = stage({}, {"first": HalfFrame}, replay=NO_REPLAY)
    assert (answers(played.run()) == np.arange(12) % 4).all()


def test_a_replay_does_not_take_it_for_a_refusal(stage) -> None:
    """A defence that only writes too much answers the same again: no finding, and the fault is on record."""

    class Chatty(Defence):
        def reply(self, header, value):
            return labels(header, [value % 4]) + JUNK

    played = stage(defences={"first": Chatty}, limits=LENIENT, replay=EVERYTHING)
    record = played.run()
    assert record.round.findings == []
    assert ("flood", 0) in faults(played, "first")


@pytest.mark.parametrize("count", [1, 1 << 20])
def test_the_farewell_hears_what_is_left(count) -> None:
    """Bytes that arrive between the last answer and the player's end are a fault of its sandbox."""

    class Talks:
        """Answers nothing and writes while it leaves."""

        def __init__(self):
            self.left = [b"x" * count, b""]

        def send(self, _data, _deadline, _cancelled=None):
            return True

        def receive(self, _deadline):
            return self.left.pop(0)

        def stop(self):
            return Exit(Ending.CLEAN, code=0)

    player = Player(Talks(), Session(Role.DEFENCE, 4, 1 << 16), time.monotonic, lambda: False)
    pool = ScriptedPool(lambda: player)
    pool.acquire_player()
    assert [(fault.code, fault.pictures) for fault in pool.retire_player()] == [("flood", 0)]
    assert [ended.reason for ended in pool.take_exits()] == [ExitReason.FLOODED]


class Full:
    """A sandbox in which the memory limit kills two processes; everything else is passed on."""

    def __init__(self, sandbox) -> None:
        self._sandbox = sandbox

    def __getattr__(self, name):
        """Passes on."""
        return getattr(self._sandbox, name)

    def stop(self):
        """Ends it."""
        return replace(self._sandbox.stop(), ending=Ending.OUT_OF_MEMORY, kills=2)


def in_full_sandboxes(played, submission):
    """Has the memory limit kill in every sandbox of a submission."""
    start = played.backend.start
    played.backend.start = lambda order: Full(start(order)) if order.image.name == submission else start(order)
    return played


def test_a_process_killed_beside_the_player_is_a_fault_of_no_picture(stage) -> None:
    """The player answers on: every answer counts, and each of its sandboxes is on record as over the memory limit."""
    played = in_full_sandboxes(stage({}, {"first": first_value}, replay=NO_REPLAY), "first")
    assert (answers(played.run()) == np.arange(12) % 4).all()
    assert faults(played, "first") == [("out-of-memory", 0)]


def test_a_player_killed_at_the_limit_is_told_once(stage) -> None:
    """What costs a picture is not told a second time as what costs none."""

    def dies(header, payload):
        return b"" if payload[0] == MARKED else first_value(header, payload)

    played = in_full_sandboxes(stage({}, {"first": dies}, replay=NO_REPLAY), "first")
    assert np.flatnonzero(answers(played.run()) == FAULTED).tolist() == [MARKED]
    told = faults(played, "first")
    assert {code for code, _ in told} == {"out-of-memory"}
    assert sum(pictures for _, pictures in told) == 1
    assert len(told) == len(played.record.round.sandboxes_of("first"))
