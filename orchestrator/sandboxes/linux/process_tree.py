"""Finds in /proc, and kills, every process that one player started.

A player's processes share its session and a tag in the environment, which children inherit through double forks and
new sessions. A child without the tag is found if it shares a session with a tagged process or descends from one. A
child that drops the tag, opens a session and is orphaned is not found: the process backend does not contain a hostile
player.
"""

import hashlib
import io
import os
import re
import secrets
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.linux.sandbox_owner import Owner

TAG_VARIABLE = "SPARRING_SANDBOX"
_TAG_PREFIX = f"{TAG_VARIABLE}=".encode()
_TAG_PATTERN = re.compile(r"sparring-([0-9a-f]+)-(\d+)-(\d+)-([0-9a-f]{8})-[0-9a-f]{8}")
_KILL_SECONDS = 5.0
_POLL_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class ProcessTag:
    """A sandbox's name, which contains its owner and its run. The sandbox's folder has the same name, for sweeps."""

    text: str
    pid_namespace: int
    pid: int
    start_time: int
    run_digest: str

    @classmethod
    def create(cls, owner: Owner, run: str) -> Self:
        """Returns a new tag. It contains the run as a digest, so that a player cannot read the run's id."""
        text = (
            f"sparring-{owner.pid_namespace:x}-{owner.pid}-{owner.start_time}-{run_digest(run)}-{secrets.token_hex(4)}"
        )
        return cls(text, owner.pid_namespace, owner.pid, owner.start_time, run_digest(run))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Returns the tag that `create` made, or None if the text is not one."""
        match = _TAG_PATTERN.fullmatch(text)
        if match is None:
            return None
        return cls(text, int(match[1], 16), int(match[2]), int(match[3]), match[4])

    def owner(self, observer: Owner) -> Owner:
        """Returns the owner that started it, as seen from `observer`; tags never leave the machine."""
        return Owner(observer.boot, self.pid_namespace, self.pid, self.start_time, observer.host)


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    session: int
    start_time: int
    tag: str | None


def run_digest(run: str) -> str:
    """Returns the eight hexadecimal digits that stand for a run in tags."""
    return hashlib.sha256(run.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def living_tags() -> set[str]:
    """Returns the tags of all running players whose environment this process may read."""
    return {process.tag for process in _living_processes() if process.tag is not None}


def kill_tagged(tag: str, session: int | None = None) -> int:
    """Kills every process of one player, repeatedly until there is none; returns how many there were.

    `session` is the player's session; give it as long as its leader has not been waited for.

    Raises:
        SandboxLost: a process survived for 5 s, for instance inside a driver's call.
    """
    killed: set[tuple[int, int]] = set()
    until = time.monotonic() + _KILL_SECONDS
    while family := _process_family(tag, session):
        for process in family:
            _kill_process(process)
        killed |= {(process.pid, process.start_time) for process in family}
        if time.monotonic() > until:
            alive = ", ".join(str(process.pid) for process in family[:10])
            raise SandboxLost(f"{len(family)} processes of a player survived SIGKILL for {_KILL_SECONDS} s: {alive}")
        time.sleep(_POLL_SECONDS)
    return len(killed)


def _process_family(tag: str, session: int | None) -> list[_Process]:
    # No tag is older than the player's first process, and reading a process's environment takes half of the time.
    processes = _living_processes(0 if session is None else int(_read_stat(session)[19]))
    # A player leads a session, so it or its children opened every session with a tagged process.
    sessions = ({p.session for p in processes if p.tag == tag} | {session}) - {os.getsid(0)}
    family = {p.pid for p in processes if p.tag == tag or p.session in sessions}
    grown = True
    while grown:
        children = {p.pid for p in processes if p.parent in family} - family
        family |= children
        grown = bool(children)
    family.discard(os.getpid())
    return [process for process in processes if process.pid in family]


def _living_processes(tagged_since: int = 0) -> list[_Process]:
    """Returns all processes, with the tags of those that started then, in clock ticks since the boot, or later."""
    processes = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            process = _read_process(int(entry.name), tagged_since)
            if process is not None:
                processes.append(process)
    return processes


def _read_process(pid: int, tagged_since: int = 0) -> _Process | None:
    """Returns one process; None if it does not exist or is a zombie."""
    try:
        fields = _read_stat(pid)
    except OSError:
        return None
    if fields[0] in {b"Z", b"X"}:
        return None
    started = int(fields[19])
    return _Process(pid, int(fields[1]), int(fields[3]), started, _read_tag(pid) if started >= tagged_since else None)


def _read_stat(pid: int) -> list[bytes]:
    """Returns the fields after the name, which may hold spaces: the first is the state."""
    stat = _read_file(pid, "stat")
    return stat[stat.rindex(b")") + 2 :].split()


def _read_tag(pid: int) -> str | None:
    try:
        environment = _read_file(pid, "environ")
    except OSError:  # another user's, or just ended
        return None
    if _TAG_PREFIX not in environment:
        return None
    for entry in environment.split(b"\0"):
        if entry.startswith(_TAG_PREFIX):
            return entry[len(_TAG_PREFIX) :].decode("ascii", "replace")
    return None


def _read_file(pid: int, name: str) -> bytes:
    """Returns a file of one process. `Path.read_bytes` takes three times as long, and every process is read."""
    with io.FileIO(f"/proc/{pid}/{name}") as file:
        return file.readall()


def _kill_process(process: _Process) -> None:
    """Kills exactly this process, and not a later one with the same id."""
    with suppress(ProcessLookupError, PermissionError):
        pidfd = os.pidfd_open(process.pid)
        try:
            current = _read_process(process.pid)
            if current is not None and current.start_time == process.start_time:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        finally:
            os.close(pidfd)
