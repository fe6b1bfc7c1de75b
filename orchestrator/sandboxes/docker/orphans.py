"""Kills runtime processes that outlived their container: containerd's shims, gVisor's sandboxes and gofers.

An engine that forgets a container may leave them behind: a shim of some 14 MB, and with gVisor's own network whole
sandboxes. They have no label. But the name of a control group, either of the process or in the container's
specification in its bundle, contains the tag of the orchestrator that started the sandbox (see `parent_cgroup`).
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

from orchestrator.sandboxes.linux.process_tree import ProcessTag
from orchestrator.sandboxes.linux.sandbox_owner import Owner, OwnerState

PROC = Path("/proc")
_MIN_AGE_SECONDS = 10.0
"""Seconds. A container's shim starts a moment before the container and ends a moment after it."""
_CONTAINER = re.compile(r"[0-9a-f]{64}")
_GVISOR = ("runsc-sandbox", "runsc-gofer")
_MAX_CONFIG_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class OrphanProcess:
    """A process of a container's runtime, the container's id, and the tag of the sandbox; `age` is in seconds."""

    pid: int
    container: str
    tag: ProcessTag
    age: float


def find_runtime_processes(root: Path = PROC) -> Iterator[OrphanProcess]:
    """Yields every runtime process of a sandbox of any orchestrator, dead or alive."""
    for path in root.glob("[0-9]*"):
        with suppress(OSError, ValueError, KeyError, TypeError):  # the process ended meanwhile
            arguments = (path / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            bundle = _container_and_bundle(path, arguments)
            if bundle is None:
                continue
            container, folder = bundle
            tag = _read_tag(path, folder)
            if tag is not None:
                yield OrphanProcess(int(path.name), container, tag, time.time() - path.stat().st_mtime)


def kill_orphans(
    container_ids: Callable[[], Collection[str]], observer: Owner, spare_run: str | None, root: Path = PROC
) -> int:
    """Kills runtime processes of dead orchestrators whose container is gone; returns how many.

    `container_ids` returns the engine's containers; it is called after the processes were listed, so that a newer
    container's process is not killed. `spare_run` is the digest of a run to spare.
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
    """Returns the container's id and bundle folder, None if this is not a runtime process."""
    program = arguments[0].rpartition("/")[2]
    if program.startswith("containerd-shim") and "-id" in arguments:
        container, folder = arguments[arguments.index("-id") + 1], path / "cwd"
    elif program in _GVISOR:
        option = next((argument for argument in arguments if argument.startswith("--bundle=")), "")
        bundle = option.removeprefix("--bundle=") or arguments[arguments.index("--bundle") + 1]
        container, folder = bundle.rpartition("/")[2], Path(bundle)
    else:
        return None
    return (container, folder) if _CONTAINER.fullmatch(container) else None


def _read_tag(path: Path, folder: Path) -> ProcessTag | None:
    groups = [line.split(":", 2)[2] for line in (path / "cgroup").read_text("utf-8").splitlines()]
    with (
        suppress(OSError, ValueError, KeyError, TypeError),
        (folder / "config.json").open("rb") as file,
    ):  # the bundle may be gone
        groups.append(json.loads(file.read(_MAX_CONFIG_BYTES))["linux"]["cgroupsPath"])
    tags = (ProcessTag.parse(part) for group in groups for part in group.split("/"))
    return next((tag for tag in tags if tag is not None), None)
