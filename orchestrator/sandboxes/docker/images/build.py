"""Building an image from a submission's recipe: the engine's classic builder, held as tight as it lets itself be held.

A step of a build runs the submission's code in the engine's own kind of container, as root there, with the engine's
seccomp profile and capabilities. What is bounded here: no network unless it is asked for, memory, processor time,
processes (where the engine makes control groups as we do), wall time, and the disk it may fill. Everything that a step
leaves running dies with its control group. Images are never pulled: what a recipe stands on has to be here.
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
from orchestrator.sandboxes.linux.owner import Owner
from orchestrator.sandboxes.linux.parent_cgroup import ParentCgroup

BUILD_RUN = "build"
MAX_BUILD_PROCESSES = 512
MIN_FREE_BYTES = 2 * 1024**3
"""Bytes that a build leaves free on the engine's disk."""
MAX_LINE_CHARACTERS = 2000
_CPU_PERIOD = 100_000
_SHM_BYTES = 64 * 1024**2
_COLOUR_CODE = re.compile(r"\x1b\[[0-9;]{0,20}m")
"""The engine paints what a step writes to standard error."""
_HOUSEKEEPING = re.compile(r"Removing intermediate container [0-9a-f]{12}")
"""What the builder says behind each step: behind one that failed, it would be the last of its words."""
_MIN_FREE_FILES = 100_000
_DISK_FULL = re.compile(r"no space left on device\W*$", re.IGNORECASE)
"""How the engine's own failure ends. A step's ends with its exit status, after words that are the submission's."""
_FREE_SPACE_REMEDY = (
    f"free space (`docker system df`): a build may take {MAX_IMAGE_BYTES} bytes, and {MIN_FREE_BYTES} stay free"
)


class BuildEngine(Protocol):
    """What building needs of the engine. Each call raises SandboxLost when the engine fails."""

    path: str

    def version(self) -> str:
        """Returns the version of its interface that is spoken."""
        ...

    def host(self) -> HostLimits:
        """Returns what its machine allows."""
        ...

    def info(self) -> Any:
        """Returns what it says of itself."""
        ...

    def image(self, reference: str) -> Any:
        """Returns what it knows of an image, None when it has none."""
        ...


def build_image(engine: BuildEngine, build_request: BuildRequest, on_line: Callable[[str], None]) -> str:
    """Builds an image and returns its id; see `ImageStore.build`."""
    subject = f"image {printable(build_request.tag)}"
    if problems := [] if build_request.network else _missing_bases(engine, build_request.bases):
        raise Rejected(subject, problems)
    objection = _BuildLimits(engine, build_request.seconds)
    host = engine.host()
    account = ParentCgroup.open(Owner.current_process(), BUILD_RUN, build_request.memory) if host.cgroupfs else None
    try:
        if account is not None:
            _limit_processes(account.path)
        query = _build_query(build_request, host, account)
        identity = _run_build(engine, query, build_request.context, objection, on_line)
    except (EngineRefusal, RequestCancelled) as error:
        if objection.disk_full_reason or (isinstance(error, EngineRefusal) and ran_out_of_space(engine, error)):
            raise InfrastructureFault(
                f"{subject} was not built: {objection.disk_full_reason or error}; {_FREE_SPACE_REMEDY}"
            ) from error
        raise Rejected(subject, [Problem("build", str(error), "correct the step that the log ends with")]) from error
    finally:
        if account is not None:
            account.close()
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


def _build_query(recipe: BuildRequest, host: HostLimits, account: ParentCgroup | None) -> dict[str, str]:
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
        **({"cgroupparent": account.path} if account is not None else {}),
    }


def _limit_processes(parent: str) -> None:
    """Bounds how many processes all steps together have, where the kernel counts them for us."""
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
    """Why a build may not go on: it took too long or more than an image may have, or the engine's disk is full.

    A full disk is ours, unless the build alone can have filled it: what an image may have has to be there.

    Raises:
        InfrastructureFault: too little is free to begin with.
    """

    def __init__(self, engine: BuildEngine, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._disk = _engine_disk(engine)
        self._free_before = self._free_bytes()
        self.disk_full_reason = ""
        """Why it ended, where that was our disk; empty as long as it was not."""
        if self._free_before < MIN_FREE_BYTES:
            raise InfrastructureFault(
                f"the engine's disk has {self._free_before} bytes free before a build; {_FREE_SPACE_REMEDY}"
            )

    def __call__(self) -> str:
        if time.monotonic() > self._deadline:
            return f"it took more than {self._seconds:g} s"
        left = self._free_bytes()
        if self._free_before - left > MAX_IMAGE_BYTES:
            return f"it took {self._free_before - left} bytes of the disk, at most {MAX_IMAGE_BYTES}"
        if left < MIN_FREE_BYTES:
            self.disk_full_reason = f"the engine's disk has {left} bytes free, of {self._free_before} before"
        return self.disk_full_reason

    def _free_bytes(self) -> int:
        found = os.statvfs(self._disk)
        return found.f_bavail * found.f_frsize


class InfoEngine(Protocol):
    """What measuring its disk needs of the engine. Each call raises SandboxLost when the engine fails."""

    def info(self) -> Mapping[str, Any]:
        """Returns what it says of itself."""
        ...


def ran_out_of_space(engine: InfoEngine, refusal: EngineRefusal) -> bool:
    """Returns whether an engine refused because its disk is too small or too full for an image.

    Its words are no evidence alone: they may hold names from a submission, and files have other room of their own that
    a submission can fill, such as for extended attributes.
    """
    if not _DISK_FULL.search(str(refusal)):
        return False
    found = os.statvfs(_engine_disk(engine))
    has_few_files = bool(found.f_files) and found.f_favail < _MIN_FREE_FILES
    return has_few_files or found.f_bavail * found.f_frsize < MAX_IMAGE_BYTES + MIN_FREE_BYTES


def _engine_disk(engine: InfoEngine) -> Path:
    return nearest_readable_folder(Path(str(engine.info().get("DockerRootDir") or "/")))


def nearest_readable_folder(path: Path) -> Path:
    """Returns a folder, or the nearest one above it that we may look at."""
    while path != path.parent:
        with suppress(OSError):
            os.statvfs(path)
            return path
        path = path.parent
    return path


class _LogLines:
    """Puts the builder's words together to lines, each printable and of a bounded length, without its housekeeping."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = ""

    def feed(self, text: str) -> None:
        """Takes more words."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._emit(line)
        while len(self._rest) > MAX_LINE_CHARACTERS:
            self._emit(self._rest[:MAX_LINE_CHARACTERS])
            self._rest = self._rest[MAX_LINE_CHARACTERS:]

    def flush(self) -> None:
        """Tells what has no end of line."""
        self._emit(self._rest)
        self._rest = ""

    def _emit(self, line: str) -> None:
        last = _COLOUR_CODE.sub("", line).rstrip("\r").rpartition("\r")[2]  # what a progress bar ends as
        if last.strip() and not _HOUSEKEEPING.fullmatch(last):
            self._on_line(printable(last, MAX_LINE_CHARACTERS))
