"""What is measured of a sandbox, from the kernel's own counters, and how its end is told."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.domain.tasks import Limits
from orchestrator.sandboxes.base import Ending, Exit
from orchestrator.sandboxes.linux import cgroup_counters, parent_cgroup
from orchestrator.sandboxes.linux.sandbox_owner import Owner

MIB = 1024 * 1024
DOCKER = [pytest.mark.docker, pytest.mark.parametrize("backend", ["docker", "runc"], indirect=True, scope="module")]


def soon(seconds: float) -> float:
    """Returns the deadline that is so many seconds away."""
    return time.monotonic() + seconds


def groups() -> set[Path]:
    """Returns the accounting groups of this process."""
    found = set()
    for hierarchy in cgroup_counters.hierarchies():
        found |= set(hierarchy.glob(f"sparring-*-{os.getpid()}-*"))
    return found


def heard_out(sandbox, listen) -> Exit:
    """Returns how a player ended that was listened to until then."""
    listen.end(sandbox)
    return sandbox.stop()


@pytest.fixture
def accounted(backend, require) -> None:
    """Nothing, where the machine lets us make control groups; else the test cannot be."""
    opened = (
        parent_cgroup.ParentCgroup.open(Owner.current_process(), "probe", 64 * MIB)
        if backend.name == "runc" or backend._engine.host().cgroupfs
        else None
    )
    if opened is None:
        require("cgroups", "this machine does not let us make control groups above a sandbox's own")
    opened.close()


def test_bytes_are_counted_each_way(play, listen):
    """What went in, what came out and what was complained of are told apart."""
    sandbox = play("echo")
    assert sandbox.send(b"x" * 5000, soon(30))
    listen.exactly(sandbox, 5000)
    end = sandbox.stop()
    assert (end.stdin_bytes, end.stdout_bytes, end.stderr_bytes) == (5000, 5000, 0)
    talkative = heard_out(play("leave", "0"), listen)
    assert (talkative.stdin_bytes, talkative.stdout_bytes, talkative.stderr_bytes) == (0, 8, 10)


KILLS = 20 if os.environ.get("SPARRING_SOAK") else 6
under_gvisor = pytest.mark.skipif(
    os.environ.get("SPARRING_TEST_RUNTIME") == "runsc",
    reason="there the memory and the pids limit end the whole sandbox, which can tell no more (docs/runtimes.md)",
)


class TestDocker:
    """What the parent group makes known. Everything here is read after the container's own group is gone."""

    pytestmark = DOCKER

    def test_a_player_of_a_moment_is_measured(self, accounted, play, listen):
        """A player that takes 100 MiB and ends at once has its peak, its processor time and its processes on record."""
        end = heard_out(play("bursts", "100", "0"), listen)
        assert end.ending is Ending.CLEAN
        assert not end.sampled
        assert 100 * MIB < end.peak_bytes < 140 * MIB
        assert 0.01 < end.cpu_seconds < 3
        assert end.peak_pids >= 2
        assert end.kills == 0

    def test_the_counters_are_the_sandboxs_own(self, accounted, play, listen):
        """A small player after a large one has a small peak: nothing is carried over."""
        heard_out(play("bursts", "200", "0"), listen)
        assert heard_out(play("bursts", "10", "0"), listen).peak_bytes < 60 * MIB

    @under_gvisor
    @pytest.mark.parametrize("code", ["0", "1"])
    def test_a_child_that_was_killed_at_the_limit_is_told(self, accounted, play, listen, code):
        """A player whose child the kernel killed is out of memory, also when it exits with code 0 itself."""
        sandbox = play("children", code, limits=replace(Limits(), memory=64 * MIB))
        assert listen.end(sandbox) == b"-9\n"
        end = sandbox.stop()
        assert (end.ending, end.code) == (Ending.OUT_OF_MEMORY, int(code))
        assert end.kills >= 1
        assert 60 * MIB < end.peak_bytes <= 65 * MIB  # version 2 of control groups counts some pages beyond the limit

    def test_a_kill_at_the_limit_is_told_from_a_kill_by_itself(self, accounted, play, listen):
        """Both end with code 137; only one is out of memory."""
        limits = replace(Limits(), memory=64 * MIB)
        hoarder = heard_out(play("bursts", "500", "0", limits=limits), listen)
        assert (hoarder.ending, hoarder.code) == (Ending.OUT_OF_MEMORY, 137)
        suicide = heard_out(play("leave", "-9", limits=limits), listen)
        assert (suicide.ending, suicide.code, suicide.kills) == (Ending.CRASHED, 137, 0)

    def test_kills_at_the_limit_are_all_told(self, accounted, play, listen):
        """No race between the kernel, the engine and us hides one."""
        limits = replace(Limits(), memory=32 * MIB)
        endings = [heard_out(play("bursts", "500", "0", limits=limits), listen).ending for _ in range(KILLS)]
        assert endings == [Ending.OUT_OF_MEMORY] * KILLS

    @under_gvisor
    def test_a_breach_of_the_process_limit_shows(self, accounted, play, listen):
        """A player that forks until it is refused is on record with its limit, as stopped and not as out of memory."""
        sandbox = play("forks", limits=replace(Limits(), pids=40))
        while not sandbox.receive(soon(30)):
            pass
        end = sandbox.stop()
        assert end.ending is Ending.STOPPED
        assert end.peak_pids == 40

    def test_no_group_is_left(self, accounted, play, listen):
        """While a sandbox lives its group is there, in the memory hierarchy too; after `stop` it is gone everywhere."""
        before = groups()
        sandbox = play("echo")
        assert groups() > before
        sandbox.stop()
        assert groups() == before


@pytest.mark.docker
@pytest.mark.parametrize("backend", ["docker"], indirect=True, scope="module")
def test_without_groups_of_ours_it_is_sampled_and_says_so(backend, play, listen, monkeypatch):
    """Where we may not make groups, usage is what was seen while the player ran."""
    monkeypatch.setattr(parent_cgroup.os, "access", lambda *_: False)
    sandbox = play("echo")
    assert groups() == set()
    for _ in range(3):
        assert sandbox.send(b"x", soon(30))
        listen.exactly(sandbox, 1)
        time.sleep(0.3)
    end = sandbox.stop()
    assert end.sampled
    assert end.peak_bytes > MIB
