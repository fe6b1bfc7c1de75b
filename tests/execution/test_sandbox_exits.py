"""Whose doing the end of a sandbox was, and what is done where nobody can tell."""

import time

import numpy as np
import pytest

from orchestrator.domain.exit_reasons import ExitReason
from orchestrator.domain.outcomes import FAULTED
from orchestrator.domain.plan import Cell, Stage
from orchestrator.errors import (
    AmbiguousExit,
    BackendUnavailable,
    Cancelled,
    DeadlinePassed,
    OutputFlood,
    PlayerDied,
    ProtocolFault,
    SandboxLost,
)
from orchestrator.execution import retry
from orchestrator.execution.ambiguous_exits import MAX_RETRIES, AmbiguousExitTracker
from orchestrator.execution.player import Player
from orchestrator.execution.player_pool import end_player
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.protocol import frames
from orchestrator.protocol.messages import Role
from orchestrator.protocol.session import Session
from orchestrator.sandboxes.base import Ending, Exit

from .conftest import ScriptedPool

NO_REPLAY = SamplingDesign(power=0.0)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """Retries wait in real rounds; here they need not."""
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _seconds: None)
    monkeypatch.setattr(retry, "POLL_SECONDS", 0.0)


def answers(record, attack=None):
    """Returns the answers in one cell of the defence `first`."""
    return record.answers("first", 12)[Cell("first", attack)]


def faults(played):
    """Returns the codes of all faults on record."""
    return [fault.code for step in played.events("step_finished") for fault in step.faults]


def ambiguous_at(*questions):
    """Returns a script that ends the player at these questions, and nobody can tell why."""
    return lambda what, count: AmbiguousExit("who knows") if what == "question" and count in questions else False


def test_an_ambiguous_end_is_played_again_twice(stage) -> None:
    """Two ambiguous ends of one step change no answer and blame nobody; both are on record."""
    smooth, bumpy = stage(), stage()
    bumpy.backend.lose = ambiguous_at(1, 2)
    expected, found = smooth.run(), bumpy.run()
    for attack in (None, "shift"):
        assert (answers(expected, attack) == answers(found, attack)).all()
    assert faults(bumpy) == []
    assert [event.code for event in bumpy.events("attempt_failed")] == ["ambiguous-end"] * MAX_RETRIES


def test_the_third_ambiguous_end_of_a_step_counts(stage) -> None:
    """At the third time it is the player's death: a fault of this question, the rest of the job is played."""
    played = stage()
    played.backend.lose = ambiguous_at(1, 2, 3)
    record = played.run()
    assert faults(played) == ["died"]
    assert len(played.events("attempt_failed")) == MAX_RETRIES
    # Of the attack's three batches of four the first one is missing, and therefore held.
    assert (record.adversarial_examples("shift").forfeits != 0).tolist() == [True] * 4 + [False] * 8
    assert record.round.closed


def test_a_player_that_always_ends_ambiguously_cannot_stop_the_round(stage) -> None:
    """Where every question ends so, every answer is a fault, and the round closes: nobody gains retries by it."""
    played = stage(replay=NO_REPLAY)
    played.backend.lose = lambda what, _count: AmbiguousExit("who knows") if what == "question" else False
    record = played.run()
    assert (answers(record) == FAULTED).all()
    assert record.round.closed
    assert set(faults(played)) == {"died"}


def test_every_step_has_doubts_of_its_own(stage) -> None:
    """Two ambiguous ends in each of three steps are six failed attempts, and nobody is blamed."""
    played = stage(replay=NO_REPLAY)
    played.backend.lose = ambiguous_at(1, 2, 4, 5, 7, 8)
    played.run()
    assert faults(played) == []
    assert len(played.events("attempt_failed")) == 6


def test_one_engine_that_goes_down_is_one_doubt() -> None:
    """Two sandboxes that end ambiguously in one attempt count once, and a step that they spare exits the next anew."""
    doubts = AmbiguousExitTracker()
    for attempt in range(1, MAX_RETRIES + 1):
        doubts.begin_step(0, attempt)
        assert isinstance(doubts.resolve(AmbiguousExit("x")), AmbiguousExit)
        assert isinstance(doubts.resolve(AmbiguousExit("x")), AmbiguousExit)
    doubts.begin_step(1, MAX_RETRIES + 1)
    assert isinstance(doubts.resolve(AmbiguousExit("x")), AmbiguousExit)


def test_once_such_an_end_counted_the_next_ones_count_at_once() -> None:
    """A job is played again for its first step's ends, not for those of every step."""
    doubts = AmbiguousExitTracker()
    for attempt in range(1, MAX_RETRIES + 1):
        doubts.begin_step(0, attempt)
        assert isinstance(doubts.resolve(AmbiguousExit("x")), AmbiguousExit)
    doubts.begin_step(0, MAX_RETRIES + 1)
    assert isinstance(doubts.resolve(AmbiguousExit("x")), PlayerDied)
    doubts.begin_step(1, MAX_RETRIES + 1)
    assert isinstance(doubts.resolve(AmbiguousExit("x")), PlayerDied)


def test_an_engine_that_is_away_is_waited_for(stage) -> None:
    """Forty looks at a closed door take no attempt; that it was waited for is on record, and nobody is blamed."""
    played = stage()
    lost = iter([AmbiguousExit("it went down")])

    def lose(what, _count):
        error = next(lost, None) if what == "question" else None
        if error:
            played.backend.away = 40
        return error

    played.backend.lose = lose
    record = played.run()
    assert (answers(record) == np.arange(12) % 4).all()
    assert faults(played) == []
    assert len(played.events("attempt_failed")) == 1
    [returned] = played.events("backend_returned")
    assert returned.job == played.events("attempt_failed")[0].job
    assert played.backend.away < 0


def test_an_engine_that_stays_away_ends_the_round(stage, monkeypatch) -> None:
    """After the longest wait the round ends with our fault; nothing is scored, and it can go on later."""
    monkeypatch.setattr(retry, "MAX_WAIT_SECONDS", 0.05)
    played = stage()
    played.backend.lose = ambiguous_at(1)
    played.backend.away = 10**9
    with pytest.raises(BackendUnavailable, match=r"waited \d+ s for it"):
        played.run()
    assert faults(played) == []
    played.backend.away = 0
    played.setting.cancelled.clear()
    assert played.run().round.closed


def test_waiting_is_cancelled(stage) -> None:
    """The operator need not wait with the orchestrator."""
    played = stage()
    played.backend.away = 10**9
    played.setting.cancelled.set()
    with pytest.raises(Cancelled):
        retry.wait_for_backend(played.backend, played.setting.clock, played.setting.cancelled)


@pytest.mark.parametrize(
    ("ending", "fault", "reason"),
    [
        (Ending.CLEAN, None, ExitReason.CLEAN),
        (Ending.STOPPED, None, ExitReason.STOPPED),
        (Ending.CRASHED, PlayerDied("x"), ExitReason.CRASHED),
        (Ending.CLEAN, PlayerDied("x"), ExitReason.CLEAN),
        (Ending.STOPPED, DeadlinePassed("x"), ExitReason.TIMED_OUT),
        (Ending.CRASHED, DeadlinePassed("x"), ExitReason.TIMED_OUT),
        (Ending.OUT_OF_MEMORY, DeadlinePassed("x"), ExitReason.OUT_OF_MEMORY),
        (Ending.STOPPED, OutputFlood("x"), ExitReason.FLOODED),
        (Ending.STOPPED, ProtocolFault("magic", "x"), ExitReason.STOPPED),
        (Ending.LOST, DeadlinePassed("x"), ExitReason.LOST),
        (Ending.STOPPED, Cancelled("x"), ExitReason.STOPPED),
    ],
)
def test_a_reason_is_the_kernels_word_then_ours_then_the_exit(ending, fault, reason) -> None:
    """What the kernel did outweighs what we ended a player for, and that outweighs how it went then."""
    exits = []
    end_player(lambda: Exit(ending), exits, fault)
    assert [each.reason for each in exits] == [reason]


def test_what_cannot_be_ended_is_noted_as_lost() -> None:
    """A sandbox that the engine fails to end is on record as lost, and the failure goes on."""
    exits = []

    def fails():
        raise SandboxLost("gone")

    with pytest.raises(SandboxLost):
        end_player(fails, exits)
    assert [each.reason for each in exits] == [ExitReason.LOST]


@pytest.mark.parametrize("when", ["bye", "leaving"])
def test_a_player_is_ended_also_where_its_farewell_fails(when) -> None:
    """An engine that goes down while a player says goodbye leaves no sandbox behind: it is stopped, and on record."""
    stopped = []

    class Parting:
        def send(self, _data, _deadline):
            if when == "bye":
                raise AmbiguousExit("the engine goes down")
            return True

        def receive(self, _deadline):
            raise AmbiguousExit("the engine goes down")

        def stop(self):
            stopped.append(self)
            return Exit(Ending.LOST)

    player = Player(Parting(), Session(Role.DEFENCE, 4, 1 << 16), time.monotonic, lambda: False)
    pool = ScriptedPool(lambda: player)
    pool.acquire_player()
    pool.retire_player()
    assert len(stopped) == 1
    assert [ended.reason for ended in pool.take_exits()] == [ExitReason.LOST]


def test_a_player_that_never_starts_holds_up_one_step(stage) -> None:
    """A start that always ends ambiguously is tried three times for a job's first step, and then no step waits."""
    played = stage(replay=NO_REPLAY)
    start = played.backend.start

    def unstartable(order):
        sandbox = start(order)
        if order.image.name == "shift":
            sandbox.send = lambda _data, _deadline, _cancelled: False
            sandbox.receive = lambda _deadline: (_ for _ in ()).throw(AmbiguousExit("the runtime failed"))
        return sandbox

    played.backend.start = unstartable
    record = played.run()
    assert [event.code for event in played.events("attempt_failed")] == ["ambiguous-end"] * MAX_RETRIES
    assert faults(played) == ["died"] * 3
    assert (record.adversarial_examples("shift").forfeits != 0).all()
    assert (answers(record) == np.arange(12) % 4).all()
    assert record.round.closed


def test_the_waiting_players_are_ended_even_if_another_cannot_be() -> None:
    """Closing ends all sandboxes of a job, also where the engine fails to end the first."""
    ended = []

    class Unendable:
        def stop(self):
            raise SandboxLost("gone")

    class Waiting:
        def stop(self):
            ended.append(self)
            return Exit(Ending.STOPPED)

    players = iter([Unendable(), Waiting(), Waiting()])
    pool = ScriptedPool(lambda: next(players), prestart_allowed=True)
    pool.acquire_player()
    pool.prestart(2)
    with pytest.raises(SandboxLost):
        pool.close()
    assert len(ended) == 2


@pytest.mark.slow
def test_the_record_says_why_each_sandbox_ended(stage) -> None:
    """A mute defence's sandboxes timed out, a dying one's crashed, a talkative one's were flooded."""

    def talkative(header, _payload):
        answer = frames.encode_frame({"type": "answers", "id": header["id"], "labels": [0]})
        return answer + frames.encode_frame({"type": "answers", "id": header["id"], "labels": [0]})

    defences = {
        "mute": lambda _header, _payload: None,
        "dies": lambda _header, _payload: b"",
        "talkative": talkative,
    }
    played = stage(defences=defences, replay=NO_REPLAY)
    played.run()
    for defence, reason in (("mute", "timed-out"), ("dies", "crashed"), ("talkative", "flooded")):
        reasons = {sandbox.reason for job in played.sandboxes(defence, Stage.CLASSIFY) for sandbox in job}
        assert reason in reasons, (defence, reasons)
