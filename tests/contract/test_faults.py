"""Trouble in the middle of a job is the same fault on every backend, and its sandbox ends the same way."""

import os
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.domain.exit_reasons import ExitReason
from orchestrator.domain.tasks import Limits
from orchestrator.errors import Cancelled, DeadlinePassed, OutOfMemory, PlayerDied, ProtocolFault, SubmissionFault
from orchestrator.execution.player import Player
from orchestrator.execution.player_pool import end_player
from orchestrator.protocol.messages import BudgetHeader, LimitsHeader, Role, TaskHeader
from orchestrator.protocol.session import Session
from orchestrator.sandboxes.base import STDERR_TAIL_BYTES, Ending

from .conftest import MARKS, NAMES

LIMITS = replace(Limits(), memory=64 * 1024 * 1024, ready_seconds=20.0, classify_seconds=2.0)
TASK = TaskHeader(name="t", classes=["a", "b"], shape=[1, 2, 2], budget=BudgetHeader(norm="linf", epsilon=8.0))
TOLD = LimitsHeader(
    ready_seconds=20.0, step_seconds=2.0, batch=1, payload_bytes=65536, memory_bytes=LIMITS.memory, threads=1
)
PICTURE = np.zeros((1, 1, 2, 2), np.uint8)
TROUBLE = {
    "crash": (PlayerDied, Ending.CRASHED, ExitReason.CRASHED, 3),
    "leave": (PlayerDied, Ending.CLEAN, ExitReason.CLEAN, 0),
    "signal": (PlayerDied, Ending.CRASHED, ExitReason.CRASHED, 139),
    "hang": (DeadlinePassed, Ending.STOPPED, ExitReason.TIMED_OUT, None),
    "memory": (OutOfMemory, Ending.OUT_OF_MEMORY, ExitReason.OUT_OF_MEMORY, 137),
    "flood": (ProtocolFault, Ending.STOPPED, ExitReason.STOPPED, None),
    "complaints": (DeadlinePassed, Ending.STOPPED, ExitReason.TIMED_OUT, None),
    "mute": (PlayerDied, Ending.STOPPED, ExitReason.STOPPED, None),
    "half": (PlayerDied, Ending.CRASHED, ExitReason.CRASHED, 3),
    "stall": (DeadlinePassed, Ending.STOPPED, ExitReason.TIMED_OUT, None),
    "print": (ProtocolFault, Ending.STOPPED, ExitReason.STOPPED, None),
    "loading": (PlayerDied, Ending.CRASHED, ExitReason.CRASHED, 7),
    "late": (DeadlinePassed, Ending.STOPPED, ExitReason.TIMED_OUT, None),
}
DEVIATIONS = {
    # There the allocation fails, and Python ends with a MemoryError.
    ("process", "memory"): (PlayerDied, Ending.CRASHED, ExitReason.CRASHED, 1),
    # The engine's stream carries stdout and stderr, so it does not end with one of them.
    ("docker", "mute"): (DeadlinePassed, Ending.STOPPED, ExitReason.TIMED_OUT, None),
    # The init program has the player's stdout too.
    ("runc", "mute"): (DeadlinePassed, Ending.STOPPED, ExitReason.TIMED_OUT, None),
}
"""Where a backend cannot know better, and why."""


BY_BACKEND = ("crash", "signal", "hang", "memory", "flood", "complaints", "mute")
"""What a backend has a part in: how a player ends, and what holds its streams up."""
OTHERS = tuple(kind for kind in TROUBLE if kind not in BY_BACKEND)
"""What players say or do not say. Each backend passes it on as test_sandboxes.py shows."""
EVERYWHERE_IN_SOAK = [
    pytest.param(name, marks=() if name == "process" else (MARKS[name], pytest.mark.soak)) for name in NAMES
]
limited = pytest.mark.skipif(os.environ.get("SPARRING_TEST_RUNTIME") == "runsc", reason="its limits end it as a whole")


@limited
@pytest.mark.parametrize("kind", BY_BACKEND)
def test_trouble_is_the_same_fault_everywhere(backend, play, kind):
    """After a question that was answered comes the fault in time, and the sandbox's end with its reason."""
    check_trouble(backend, play, kind)


@limited
@pytest.mark.parametrize("backend", EVERYWHERE_IN_SOAK, indirect=True, scope="module")
@pytest.mark.parametrize("kind", OTHERS)
def test_trouble_with_words_is_the_same_fault(backend, play, kind):
    """The same of what a player says, where a player starts soonest; in `make soak` on every backend."""
    check_trouble(backend, play, kind)


def check_trouble(backend, play, kind: str) -> None:
    """Asserts the fault and the end of a player that makes a kind of trouble."""
    expected = DEVIATIONS.get((backend.name, kind), TROUBLE[kind])
    limits = replace(LIMITS, ready_seconds=1.5) if kind == "late" else LIMITS
    sandbox, leaves = play("trouble", kind, limits=LIMITS), []
    player = Player(sandbox, Session(Role.DEFENCE, 2, 65536), time.monotonic, lambda: False)

    def asked() -> None:
        player.say_hello(TASK, TOLD.model_copy(update={"ready_seconds": limits.ready_seconds}), 1)
        assert player.classify(PICTURE, limits).labels == (0,)
        player.classify(PICTURE, limits)
        player.classify(PICTURE, limits)  # what was said too much is met at the next question

    with pytest.raises(SubmissionFault) as fault:
        asked()
    end_player(player.stop, leaves, fault.value)

    [leave] = leaves
    found = (type(fault.value), leave.exit.ending, leave.reason, leave.exit.code)
    assert found == expected, leave.exit.stderr[-500:]
    assert len(leave.exit.stderr) <= STDERR_TAIL_BYTES
    if kind == "complaints":
        assert leave.exit.stderr_bytes > STDERR_TAIL_BYTES


def test_output_behind_the_last_reply_is_heard_at_the_farewell(play):
    """No question follows, and it is noticed all the same; a player that says nothing more leaves in peace."""
    for kind, reason in (("behind", ExitReason.FLOODED), ("nothing", ExitReason.CLEAN)):
        sandbox, leaves = play("trouble", kind, limits=LIMITS), []
        player = Player(sandbox, Session(Role.DEFENCE, 2, 65536), time.monotonic, lambda: False)
        player.say_hello(TASK, TOLD, 1)
        for _ in range(2):
            assert player.classify(PICTURE, LIMITS).labels == (0,)
        end_player(player.stop, leaves, player.say_bye())
        assert [leave.reason for leave in leaves] == [reason], kind


def test_a_question_that_nobody_reads_ends_with_the_round(play):
    """A player says ready and never reads: with much time left, a cancelled round ends it within seconds."""
    sandbox, leaves, cancelled = play("trouble", "deaf", limits=LIMITS), [], threading.Event()
    player = Player(sandbox, Session(Role.DEFENCE, 2, 65536), time.monotonic, cancelled.is_set)
    player.say_hello(TASK.model_copy(update={"shape": [1, 1024, 1024]}), TOLD, 1)
    threading.Timer(1, cancelled.set).start()
    begun = time.monotonic()
    with pytest.raises(Cancelled):
        player.classify(np.zeros((8, 1, 1024, 1024), np.uint8), replace(LIMITS, classify_seconds=120.0))
    assert time.monotonic() - begun < 60
    end_player(player.stop, leaves, None)
    assert [leave.exit.ending for leave in leaves] == [Ending.STOPPED]
    assert time.monotonic() - begun < 60
