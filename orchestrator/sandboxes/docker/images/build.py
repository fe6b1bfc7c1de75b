"""Builds an image from a submission's recipe with the engine's classic builder, within limits.

A step of a build runs the submission's code in an ordinary container of the engine, as root there, with the engine's
seccomp profile and capabilities. A build has no network unless the request allows it. This module limits its memory,
processor time, processes (if the engine uses the cgroupfs driver), wall time and disk space. Processes that a step
leaves running are killed with its control group. The engine never pulls images: it must have the recipe's bases.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from orchestrator.domain.images import MAX_IMAGE_BYTES, is_image_reference
from orchestrator.domain.text import printable
from orchestrator.errors import InfrastructureFault, Problem, Rejected, SandboxLost
from orchestrator.sandboxes.base import BuildRequest
from orchestrator.sandboxes.docker.engine_http import EngineRefusal, RequestCancelled, engine_request, progress_messages
from orchestrator.sandboxes.linux import cgroup_counters
from orchestrator.sandboxes.linux.host_limits import HostLimits
from orchestrator.sandboxes.linux.parent_cgroup import ParentCgroup
from orchestrator.sandboxes.linux.sandbox_owner import Owner

BUILD_RUN = "build"
MAX_BUILD_PROCESSES = 512
MIN_FREE_BYTES = 2 * 1024**3
"""Bytes that a build leaves free on the engine's disk."""
MAX_LINE_CHARACTERS = 2000
_CPU_PERIOD = 100_000
_SHM_BYTES = 64 * 1024**2
_COLOUR_CODE = re.compile(r"\x1b\[[0-9;]{0,20}m")
"""The engine colours what a step writes to standard error."""
_HOUSEKEEPING = re.compile(r"Removing intermediate container [0-9a-f]{12}")
"""A line that the builder writes after each step. It is left out, or it would be the last line after a failed step."""
_MIN_FREE_FILES = 100_000
_DISK_FULL = re.compile(r"no space left on device\W*$", re.IGNORECASE)
"""The end of the engine's own message. A failed step's message ends with its exit status, after hostile text."""
_FREE_SPACE_REMEDY = (
    f"free space (`docker system df`): a build may take {MAX_IMAGE_BYTES} bytes, and {MIN_FREE_BYTES} stay free"
)


class BuildEngine(Protocol):
    """The engine's calls that a build uses. Each raises SandboxLost if the engine fails."""

    path: str

    def version(self) -> str:
        """Returns the version of the engine's API that the client uses."""
        ...

    def host(self) -> HostLimits:
        """Returns the limits of the engine's machine."""
        ...

    def info(self) -> Any:
        """Returns the engine's description of itself."""
        ...

    def image(self, reference: str) -> Any:
        """Returns the engine's description of an image, None if it has no such image."""
        ...


def build_image(engine: BuildEngine, build_request: BuildRequest, on_line: Callable[[str], None]) -> str:
    """Builds an image and returns its id; see `ImageStore.build`."""
    subject = f"image {printable(build_request.tag)}"
    if problems := [] if build_request.network else _missing_bases(engine, build_request.bases):
        raise Rejected(subject, problems)
    objection = _BuildLimits(engine, build_request.seconds)
    host = engine.host()
    cgroup = ParentCgroup.open(Owner.current_process(), BUILD_RUN, build_request.memory) if host.cgroupfs else None
    try:
        if cgroup is not None:
            _limit_processes(cgroup.path)
        query = _build_query(build_request, host, cgroup)
        identity = _run_build(engine, query, build_request.context, objection, on_line)
    except (EngineRefusal, RequestCancelled) as error:
        if objection.disk_full_reason or (isinstance(error, EngineRefusal) and ran_out_of_space(engine, error)):
            raise InfrastructureFault(
                f"{subject} was not built: {objection.disk_full_reason or error}; {_FREE_SPACE_REMEDY}"
            ) from error
        raise Rejected(subject, [Problem("build", str(error), "correct the step that the log ends with")]) from error
    finally:
        if cgroup is not None:
            cgroup.close()
    if engine.image(identity) is None:
        raise SandboxLost(f"the engine built {printable(identity)} and does not have it")
    return identity


def _missing_bases(engine: BuildEngine, bases: tuple[str, ...]) -> list[Problem]:
    return [
        Problem("FROM", f"{printable(base)} is not here, and nothing is pulled", _missing_base_remedy(base))
        for base in bases
        if not is_image_reference(base) or engine.image(base) is None
    ]


def _missing_base_remedy(base: str) -> str:
    option = "--cuda " if base.endswith(":cuda") else ""
    return f"build or load it first (`sparring image build {option}base` builds ours)"


def _build_query(recipe: BuildRequest, host: HostLimits, cgroup: ParentCgroup | None) -> dict[str, str]:
    """Returns the parameters of POST /build."""
    return {
        "t": recipe.tag,
        "version": "1",
        "networkmode": "default" if recipe.network else "none",
        "pull": "0",
        "rm": "1",
        "forcerm": "1",
        "memory": str(recipe.memory),
        "memswap": str(recipe.memory),
        "cpuperiod": str(_CPU_PERIOD),
        "cpuquota": str(_CPU_PERIOD * max(1, host.cpus - 1)),
        "shmsize": str(_SHM_BYTES),
        "ulimits": json.dumps([{"Name": "core", "Soft": 0, "Hard": 0}]),
        "buildargs": json.dumps(dict(recipe.arguments)),
        "labels": json.dumps(dict(recipe.labels)),
        **({"cgroupparent": cgroup.path} if cgroup is not None else {}),
    }


def _limit_processes(parent: str) -> None:
    """Limits the number of processes of all steps together, if there is a pids controller."""
    for hierarchy in cgroup_counters.hierarchies():
        limit = hierarchy / parent.removeprefix("/") / "pids.max"
        if limit.exists():
            with suppress(OSError):
                limit.write_text(str(MAX_BUILD_PROCESSES), "ascii")


def _run_build(
    engine: BuildEngine,
    query: dict[str, str],
    context: Iterator[bytes],
    objection: Callable[[], str],
    write_line: Callable[[str], None],
) -> str:
    lines = _LogLines(write_line)
    identity = ""
    with engine_request(engine.path, "POST", f"/v{engine.version()}/build", query, context, objection) as answer:
        try:
            for message in progress_messages(answer):
                lines.feed(str(message.get("stream", "")))
                identity = str((message.get("aux") or {}).get("ID", identity))
        finally:
            lines.flush()
    if not identity:
        raise SandboxLost("the engine's builder ended without an image")
    return identity


class _BuildLimits:
    """Called during a build, returns the reason to end it: it took too long or too much disk, or the disk is full.

    A full disk is an infrastructure fault, unless the build alone took more than `MAX_IMAGE_BYTES`.

    Raises:
        InfrastructureFault: fewer than `MIN_FREE_BYTES` are free before the build.
    """

    def __init__(self, engine: BuildEngine, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._disk = _engine_disk(engine)
        self._free_before = self._free_bytes()
        self.disk_full_reason = ""
        """Why the build was ended, if the engine's disk was full; otherwise empty."""
        if self._free_before < MIN_FREE_BYTES:
            raise InfrastructureFault(
                f"the engine's disk has {self._free_before} bytes free before a build; {_FREE_SPACE_REMEDY}"
            )

    def __call__(self) -> str:
        if time.monotonic() > self._deadline:
            return f"it took more than {self._seconds:g} s"
        free = self._free_bytes()
        if self._free_before - free > MAX_IMAGE_BYTES:
            return f"it took {self._free_before - free} bytes of the disk, at most {MAX_IMAGE_BYTES}"
        if free < MIN_FREE_BYTES:
            self.disk_full_reason = f"the engine's disk has {free} bytes free, of {self._free_before} before"
        return self.disk_full_reason

    def _free_bytes(self) -> int:
        status = os.statvfs(self._disk)
        return status.f_bavail * status.f_frsize


class InfoEngine(Protocol):
    """The engine's call that measuring its disk uses. It raises SandboxLost if the engine fails."""

    def info(self) -> Mapping[str, Any]:
        """Returns the engine's description of itself."""
        ...


def ran_out_of_space(engine: InfoEngine, refusal: EngineRefusal) -> bool:
    """Returns whether an engine refused because its disk is too small or too full for an image.

    Its message alone is not sufficient: it may contain names from a submission, and a submission can also exhaust
    other space of a file system, such as that for extended attributes.
    """
    if not _DISK_FULL.search(str(refusal)):
        return False
    status = os.statvfs(_engine_disk(engine))
    has_few_files = bool(status.f_files) and status.f_favail < _MIN_FREE_FILES
    return has_few_files or status.f_bavail * status.f_frsize < MAX_IMAGE_BYTES + MIN_FREE_BYTES


def _engine_disk(engine: InfoEngine) -> Path:
    return nearest_readable_folder(Path(str(engine.info().get("DockerRootDir") or "/")))


def nearest_readable_folder(path: Path) -> Path:
    """Returns a folder, or the nearest folder above it that this process can access."""
    while path != path.parent:
        with suppress(OSError):
            os.statvfs(path)
            return path
        path = path.parent
    return path


class _LogLines:
    """Joins the builder's output to printable lines of bounded length, without its lines about housekeeping."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = ""

    def feed(self, text: str) -> None:
        """Adds text, and emits the lines that it completes."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._emit(line)
        while len(self._rest) > MAX_LINE_CHARACTERS:
            self._emit(self._rest[:MAX_LINE_CHARACTERS])
            self._rest = self._rest[MAX_LINE_CHARACTERS:]

    def flush(self) -> None:
        """Emits the last line, which has no newline."""
        self._emit(self._rest)
        self._rest = ""

    def _emit(self, line: str) -> None:
        last = _COLOUR_CODE.sub("", line).rstrip("\r").rpartition("\r")[2]  # the last state of a progress bar
        if last.strip() and not _HOUSEKEEPING.fullmatch(last):
            self._on_line(printable(last, MAX_LINE_CHARACTERS))
