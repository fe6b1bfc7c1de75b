"""Processes around a container that outlive it: shims of containerd, and gVisor's sandboxes and gofers.

An engine that forgets a container may leave them behind: a shim of some 14 MB, and with gVisor's own network whole
sandboxes. They carry no label. What they were for stands in the
container's own specification, which lies in their bundle: the control group there, or their own, is named after the
orchestrator that asked for the sandbox (see `_account`).
"""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.backends._owner import Life, Owner
from orchestrator.backends._processes import Mark

PROC = Path("/proc")
_OLD_ENOUGH = 10.0
"""Seconds: a container's shim is there a moment before and after it."""
_CONTAINER = re.compile(r"[0-9a-f]{64}")
_GVISOR = ("runsc-sandbox", "runsc-gofer")
_LONGEST = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Leftover:
    """One such process: its container's id, and the mark of the sandbox that it was for."""

    pid: int
    container: str
    mark: Mark
    age: float


def found(root: Path = PROC) -> Iterator[Leftover]:
    """Yields every such process whose sandbox was an orchestrator's, the living ones too."""
    for path in root.glob("[0-9]*"):
        with suppress(OSError, ValueError, KeyError, TypeError):  # it ended while it was looked at
            words = (path / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            bundle = _bundle(path, words)
            if bundle is None:
                continue
            container, folder = bundle
            mark = _mark(path, folder)
            if mark is not None:
                yield Leftover(int(path.name), container, mark, time.time() - path.stat().st_mtime)


def sweep(known: Callable[[], Collection[str]], here: Owner, keep: str | None, root: Path = PROC) -> int:
    """Kills those of dead orchestrators whose container is gone; returns how many. `keep` is a run's digest.

    `known` gives the engine's containers; it is asked after the processes were listed, so that none is too new.
    """
    old = [each for each in found(root) if each.age >= _OLD_ENOUGH and each.mark.run != keep]
    dead = [each for each in old if each.mark.owner(here).life(here) is Life.DEAD]
    there = set(known()) if dead else set()
    ended = 0
    for each in dead:
        if each.container not in there:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, signal.SIGKILL)
                ended += 1
    return ended


def _bundle(path: Path, words: list[str]) -> tuple[str, Path] | None:
    """Returns the container and the folder of its specification, None for every other process."""
    program = words[0].rpartition("/")[2]
    if program.startswith("containerd-shim") and "-id" in words:
        container, folder = words[words.index("-id") + 1], path / "cwd"
    elif program in _GVISOR:
        given = next((word for word in words if word.startswith("--bundle=")), "")
        place = given.removeprefix("--bundle=") or words[words.index("--bundle") + 1]
        container, folder = place.rpartition("/")[2], Path(place)
    else:
        return None
    return (container, folder) if _CONTAINER.fullmatch(container) else None


def _mark(path: Path, folder: Path) -> Mark | None:
    groups = [line.split(":", 2)[2] for line in (path / "cgroup").read_text("utf-8").splitlines()]
    with (
        suppress(OSError, ValueError, KeyError, TypeError),
        (folder / "config.json").open("rb") as file,
    ):  # or it is gone
        groups.append(json.loads(file.read(_LONGEST))["linux"]["cgroupsPath"])
    marks = (Mark.parse(part) for group in groups for part in group.split("/"))
    return next((mark for mark in marks if mark is not None), None)
