"""Processes around a container that outlive it: shims of containerd, and gVisor's sandboxes and gofers.

An engine that forgets a container may leave them behind: a shim of some 14 MB, and with gVisor's own network whole
sandboxes. They carry no label. What they were for stands in the
container's own specification, which lies in their bundle: the control group there, or their own, is named after the
orchestrator that asked for the sandbox (see `parent_cgroup`).
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

from orchestrator.sandboxes.linux.owner import Owner, OwnerState
from orchestrator.sandboxes.linux.process_tree import ProcessTag

PROC = Path("/proc")
_MIN_AGE_SECONDS = 10.0
"""Seconds: a container's shim is there a moment before and after it."""
_CONTAINER = re.compile(r"[0-9a-f]{64}")
_GVISOR = ("runsc-sandbox", "runsc-gofer")
_MAX_CONFIG_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class OrphanProcess:
    """One such process: its container's id, and the mark of the sandbox that it was for."""

    pid: int
    container: str
    tag: ProcessTag
    age: float


def find_runtime_processes(root: Path = PROC) -> Iterator[OrphanProcess]:
    """Yields every such process whose sandbox was an orchestrator's, the living ones too."""
    for path in root.glob("[0-9]*"):
        with suppress(OSError, ValueError, KeyError, TypeError):  # it ended while it was looked at
            arguments = (path / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            bundle = _container_and_bundle(path, arguments)
            if bundle is None:
                continue
            container, folder = bundle
            mark = _read_tag(path, folder)
            if mark is not None:
                yield OrphanProcess(int(path.name), container, mark, time.time() - path.stat().st_mtime)


def kill_orphans(
    container_ids: Callable[[], Collection[str]], observer: Owner, spare_run: str | None, root: Path = PROC
) -> int:
    """Kills those of dead orchestrators whose container is gone; returns how many. `spare_run` is a run's digest.

    `container_ids` gives the engine's containers; it is asked after the processes were listed, so that none is too new.
    """
    old = [
        process
        for process in find_runtime_processes(root)
        if process.age >= _MIN_AGE_SECONDS and process.tag.run_digest != spare_run
    ]
    dead = [process for process in old if process.tag.owner(observer).state_seen_by(observer) is OwnerState.DEAD]
    containers = set(container_ids()) if dead else set()
    killed = 0
    for process in dead:
        if process.container not in containers:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
                killed += 1
    return killed


def _container_and_bundle(path: Path, arguments: list[str]) -> tuple[str, Path] | None:
    """Returns the container and the folder of its specification, None for every other process."""
    program = arguments[0].rpartition("/")[2]
    if program.startswith("containerd-shim") and "-id" in arguments:
        container, folder = arguments[arguments.index("-id") + 1], path / "cwd"
    elif program in _GVISOR:
        given = next((argument for argument in arguments if argument.startswith("--bundle=")), "")
        place = given.removeprefix("--bundle=") or arguments[arguments.index("--bundle") + 1]
        container, folder = place.rpartition("/")[2], Path(place)
    else:
        return None
    return (container, folder) if _CONTAINER.fullmatch(container) else None


def _read_tag(path: Path, folder: Path) -> ProcessTag | None:
    groups = [line.split(":", 2)[2] for line in (path / "cgroup").read_text("utf-8").splitlines()]
    with (
        suppress(OSError, ValueError, KeyError, TypeError),
        (folder / "config.json").open("rb") as file,
    ):  # or it is gone
        groups.append(json.loads(file.read(_MAX_CONFIG_BYTES))["linux"]["cgroupsPath"])
    marks = (ProcessTag.parse(part) for group in groups for part in group.split("/"))
    return next((mark for mark in marks if mark is not None), None)
