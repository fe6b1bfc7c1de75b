"""Ending things for sure: once, again where it failed, and in the right order."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.base import Ending, Exit
from orchestrator.sandboxes.pending_cleanup import PendingCleanup, Rollback, StopOnce


class Steps:
    """Things to be ended; those in `stuck` cannot be."""

    def __init__(self, *stuck: str) -> None:
        self.stuck, self.done = set(stuck), []

    def end(self, name: str):
        """Returns what ends one of them."""

        def end() -> None:
            if name in self.stuck:
                raise SandboxLost(f"{name} survives")
            self.done.append(name)

        return end


def make(pending: PendingCleanup, steps: Steps, *, error: Exception | None = None) -> None:
    """Makes a uid, a group and a process, in this order, and fails then if told so."""
    with Rollback(pending) as rollback:
        for name in ("uid", "group", "process"):
            rollback.add(steps.end(name))
        if error is not None:
            raise error


def test_nothing_is_undone_where_all_went_well() -> None:
    """What was made is the sandbox's now."""
    steps = Steps()
    make(PendingCleanup(), steps)
    assert steps.done == []


def test_the_last_is_undone_first() -> None:
    """And the error that ended it is told."""
    steps = Steps()
    with pytest.raises(ValueError, match="first"):
        make(PendingCleanup(), steps, error=ValueError("first"))
    assert steps.done == ["process", "group", "uid"]


def test_what_cannot_be_undone_is_tried_again_and_nothing_overtakes_it() -> None:
    """A user id is not free as long as something lives that has it; what was undone is not undone twice."""
    pending, steps = PendingCleanup(), Steps("group")
    with pytest.raises(ValueError, match="first"):
        make(pending, steps, error=ValueError("first"))
    pending.run()
    assert steps.done == ["process"]
    steps.stuck.clear()
    pending.run()
    pending.run()
    assert steps.done == ["process", "group", "uid"]


def test_a_sandbox_is_stopped_once_whoever_asks() -> None:
    """Its owner and those who end what is pending, at the same time: one ends it, all are told how."""
    ends = []
    stop = StopOnce(lambda: ends.append(1) or Exit(Ending.STOPPED), PendingCleanup())
    with ThreadPoolExecutor(8) as pool:
        exits = {id(each) for each in pool.map(lambda _: stop(), range(32))}
    assert (len(ends), len(exits)) == (1, 1)


def test_a_stop_that_failed_is_tried_again() -> None:
    """By the next who asks, or by what ends things later."""
    pending, steps = PendingCleanup(), Steps("process")
    end = steps.end("process")
    stop = StopOnce(lambda: end() or Exit(Ending.STOPPED), pending)
    with pytest.raises(SandboxLost):
        stop()
    steps.stuck.clear()
    pending.run()
    assert steps.done == ["process"]
    assert stop().ending is Ending.STOPPED
    assert steps.done == ["process"]
