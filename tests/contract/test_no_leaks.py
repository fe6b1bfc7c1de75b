"""Sandboxes opened and killed at random moments leave nothing: 12 of them in `make test-all`, 200 in `make soak`."""

import gc
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.sandboxes.base import Ending, Sandbox, SandboxSpec
from orchestrator.sandboxes.linux import cgroup_counters, uid_pool

pytestmark = [
    pytest.mark.docker,
    pytest.mark.parametrize("backend", ["docker", "runc"], indirect=True, scope="module"),
    pytest.mark.timeout(1800),
]

SIZE = 200 if os.environ.get("SPARRING_SOAK") else 12
AT_A_TIME = 4
LIMITS = replace(Limits(), memory=128 * 1024 * 1024, pids=50)
PLAYERS = {
    "hello": ("echo.py",),
    "question": ("echo.py",),
    "flood": ("flood.py", "1"),
    "complaints": ("flood.py", "2"),
    "forks": ("forks.py",),
    "hoard": ("bursts.py", "500", "0"),
    "gone": ("leave.py", "3"),
    "ended": ("leave.py", "3"),
}
END_SECONDS = 300
"""How long a player may take to come to its own end."""
PLACES = ("/run/docker", "/run/containerd", "/var/run/docker", "/run/sparring")


def engines_pid() -> int:
    """Returns the process that listens at the engine's socket, 0 where it is not on this machine."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect("/var/run/docker.sock")
        return struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def mounts(pid: int | str) -> str:
    """Returns what is mounted for a process."""
    return Path(f"/proc/{pid}/mountinfo").read_text()


def named(words: set[str]) -> Iterator[str]:
    """Yields every pipe, socket and folder of the engine, and every control group, whose name holds one of the words.

    A control group of ours holds this process's id.
    """
    for place in {Path(place).resolve() for place in PLACES}:
        for folder, folders, files in os.walk(place):
            yield from (f"{folder}/{name}" for name in (*folders, *files) if any(word in name for word in words))
    for hierarchy in cgroup_counters.hierarchies():
        for folder, folders, _ in os.walk(hierarchy):
            yield from (f"{folder}/{name}" for name in folders if any(word in name for word in words))


def processes(words: set[str]) -> Iterator[str]:
    """Yields the processes, helpers of the engine included, that belong to one of the words."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            said = (path / "cmdline").read_bytes().decode(errors="replace") + (path / "cgroup").read_text()
            yield from (f"{path.name}: {said[:200]}" for word in words if word in said)


def settled(left, seconds: float = 10) -> list[str]:
    """Returns what is still left after a moment: the engine clears up behind its answer."""
    until = time.monotonic() + seconds
    while (found := list(left())) and time.monotonic() < until:
        time.sleep(0.2)
    return found


def open_descriptors() -> int:
    """Returns how many files this process has open, aside from what keeps its user ids."""
    return len(list(Path("/proc/self/fd").iterdir())) - len(uid_pool._names)


def await_end(sandbox: Sandbox) -> None:
    """Reads what a player writes until it has ended by itself, however slow the machine is."""
    until = time.monotonic() + END_SECONDS
    while received := sandbox.receive(until):
        pass
    assert received == b"", "the player has not ended"


def test_sandboxes_killed_at_random_moments_leave_nothing(backend, image, run, engine):
    """No container, mount, pipe, process, thread, control group or file descriptor is left of any of them."""
    chance = random.Random(31)
    kinds = [list(PLAYERS)[number % len(PLAYERS)] for number in range(SIZE)]
    chance.shuffle(kinds)
    moments = [chance.choice([0.0, chance.uniform(0.0, 0.1), chance.uniform(0.0, 0.8)]) for _ in kinds]
    words: set[str] = set()
    endings: list[Ending] = []

    def once(kind: str, moment: float) -> None:
        command = ("python3", *PLAYERS[kind])
        sandbox = backend.start(SandboxSpec(replace(image, command=command), SandboxPolicy(LIMITS), run, "job"))
        words.add(sandbox._container)
        if backend.name == "docker":
            with suppress(Exception):  # it may have ended already
                words.add(sandbox._engine.inspect(sandbox._container)["GraphDriver"]["Data"]["MergedDir"])
        until = time.monotonic() + moment
        if kind == "question":
            sandbox.send(bytes(3_000_000), until)
        elif kind in {"complaints", "hoard", "gone"}:
            sandbox.receive(until)
        elif kind == "ended":
            await_end(sandbox)
            if backend.name == "docker":
                sandbox._engine.wait(sandbox._container, END_SECONDS)  # a busy engine notices it later
        time.sleep(max(0.0, until - time.monotonic()))
        endings.append(sandbox.stop().ending)

    once("question", 0.1)  # what is opened once and kept
    listed = {"all": True, "filters": {"label": f"sparring.run={run}"}}
    engine.containers.list(**listed)
    gc.collect()
    threads, descriptors, uids = threading.active_count(), open_descriptors(), len(uid_pool._uids_in_use)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(once, kinds, moments))
    gc.collect()

    assert len(endings) == SIZE + 1
    assert {Ending.STOPPED, Ending.CRASHED} <= set(endings)
    assert len(words) > SIZE
    assert engine.containers.list(**listed) == []
    layers = {Path(word).parent.name if "/" in word else word for word in words}
    pid = engines_pid()
    for whose in {"self", pid} if pid else {"self"}:
        assert settled(lambda whose=whose: (layer for layer in layers if layer in mounts(whose))) == []
    assert settled(lambda: named({*layers, f"-{os.getpid()}-"})) == []
    assert settled(lambda: processes(layers)) == []
    assert threading.active_count() <= threads
    assert open_descriptors() <= descriptors
    assert len(uid_pool._uids_in_use) == uids
