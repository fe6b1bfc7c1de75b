"""The interface between execution and the backends that run players: send bytes, receive bytes, stop the player.

A new backend is a package in this folder whose `__init__` assigns `plugin`; tests/contract/ finds it by listing the
folder and tests it against this interface. Deadlines are values of `time.monotonic()`.

The backend decides whose fault a failure is: a failure of the engine raises an `InfrastructureFault`; whatever the
player does only ends its stream, and `Sandbox.stop` returns how it ended.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol

from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.errors import Problem

STDERR_TAIL_BYTES = 64 * 1024
"""The number of bytes of a player's stderr that are kept, the last ones."""
POLL_SECONDS = 0.5
"""Seconds between two checks for a cancellation by the operator, during a wait for a player."""


def never_cancelled() -> bool:
    """Returns False: the default for callers that cannot be cancelled."""
    return False


class Ending(StrEnum):
    """How a sandbox ended."""

    CLEAN = "clean"
    """The player exited by itself with code 0."""
    CRASHED = "crashed"
    """The player exited by itself with another code, or by a signal of its own."""
    OUT_OF_MEMORY = "out-of-memory"
    """The kernel killed the player, or a process that it had started, at its memory limit, whatever the exit code."""
    STOPPED = "stopped"
    """The player was still running, and `stop` killed it."""
    LOST = "lost"
    """The player did not cause the end, or the cause cannot be determined: see `Sandbox.receive`."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a sandbox ended and what it used.

    `code` is the exit status, 128 + n for signal n, None if it was not observed or we killed the player. `stderr` are
    the last `STDERR_TAIL_BYTES` bytes that the player wrote there: hostile text. The counts of bytes include only what
    the sandbox wrote and read: not output that was never read.
    """

    ending: Ending
    code: int | None = None
    wall_seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_bytes: int | None = None
    peak_pids: int | None = None
    """The highest number of processes and threads at any time."""
    kills: int = 0
    """The number of processes that the kernel killed at the memory limit."""
    sampled: bool = False
    """Whether the usage comes from periodic samples, which miss the last moments."""
    stdin_bytes: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    stderr: bytes = b""


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Where a submission comes from: its folder, or an image that the engine already has."""

    folder: Path | None = None
    image: str | None = None
    command: tuple[str, ...] = ()
    """The command that starts it in `folder`, for backends without images."""
    trusted: bool = False
    """Whether the organizers wrote it themselves."""
    flavour: str = "cpu"
    """The kind of image to build of `folder`."""
    registry_name: str = ""
    """The name under which it was pushed, for nodes that pull. It has to be the image with the id `image`."""


@dataclass(frozen=True, slots=True)
class Image:
    """An admitted image, from which a backend starts players. `digest` identifies it; `name` is for people."""

    digest: str
    name: str
    command: tuple[str, ...] = ()
    folder: Path | None = None
    reference: str = ""
    """The reference by digest that a cluster's nodes pull; empty if nothing is pulled."""
    unset_variables: tuple[str, ...] = ()
    """Names of its environment variables that players must not get, which a cluster's node would otherwise pass on."""
    rollback: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    """Removes what `admit` or `fresh_copy` made for it, for a caller that refuses it or no longer needs it; None if
    they made nothing."""


@dataclass(frozen=True, slots=True)
class ImageTree:
    """Facts about the files of an image. Names are printable, and only the first of each category are kept.

    The categories: `set_id` (set-user-ID or set-group-ID), `capable` (with capabilities), `devices`, `writable` (by
    everyone).
    """

    files: int
    size: int
    """Bytes of all files together."""
    counts: Mapping[str, int]
    names: Mapping[str, tuple[str, ...]]
    cut_reason: str = ""
    """Why reading stopped before the end; empty if it did not."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The configuration and files of an image. All texts except `problems` are hostile and unchanged.

    `layers` are sizes in bytes, the lowest layer first. `tree` is None if the caller did not ask for the files.
    """

    image_id: str
    size: int
    layers: tuple[int, ...]
    user: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    folder: str
    volumes: tuple[str, ...]
    ports: tuple[str, ...]
    healthcheck: tuple[str, ...]
    on_build: tuple[str, ...]
    labels: Mapping[str, str]
    environment: tuple[str, ...]
    """`NAME=value`, including secrets."""
    passed_variables: frozenset[str]
    """The names of the variables that a player gets."""
    problems: tuple[Problem, ...]
    """Why it is not admitted; empty if it is."""
    tree: ImageTree | None


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """Everything a backend needs to start one sandbox."""

    image: Image
    policy: SandboxPolicy
    run: str
    """The round's run id, by which `clean_up` finds what a dead run left."""
    job: str
    device: str | None = None
    """The UUID of the one GPU it may use."""

    @property
    def limits(self) -> Limits:
        """The limits of its policy."""
        return self.policy.limits


@dataclass(frozen=True, slots=True)
class ImageLayer:
    """One layer of an image to load: an uncompressed tar archive that was checked before.

    `diff_id` is the digest of its bytes, `size` their number; `read_pieces` yields them in pieces.
    """

    diff_id: str
    size: int
    read_pieces: Callable[[], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """The input of an image build: the context is a tar archive in pieces, whose `Dockerfile` was checked before.

    `bases` are the base images; without `network` the engine has to have each of them. `memory` is in bytes.
    """

    context: Iterator[bytes]
    tag: str
    bases: tuple[str, ...]
    arguments: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    network: bool = False
    seconds: float = 1800.0
    memory: int = 4 * 1024**3


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """The settings of all backends, from `composition`. A backend is created with `plugin(settings)`."""

    workspace: Path
    """A folder of the orchestrator, for snapshots of submissions."""
    python_path: tuple[Path, ...] = ()
    """The module search path of a player's Python, if the player shares our file system."""
    python: str = sys.executable
    """The interpreter that `python` in a command stands for, if the player shares our file system."""
    allow_unisolated: bool = False
    """Whether strangers' submissions may run without isolation."""


class CheckStatus(StrEnum):
    """The result of a check of `sparring doctor`."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Check:
    """One fact about this machine, with a remedy if it is a problem."""

    name: str
    status: CheckStatus
    detail: str
    remedy: str = ""


class Sandbox(Protocol):
    """One running player."""

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:
        """Writes all of `data` to the player's stdin.

        Meanwhile it reads the player's output, so that two full pipes never cause a deadlock. While the player reads
        nothing, it calls `cancelled` every `POLL_SECONDS` seconds.

        Returns False if the deadline passed, stdin is closed, or `cancelled` returned True. After an incomplete write
        it writes nothing more.
        """
        ...

    def receive(self, deadline: float) -> bytes | None:
        """Returns what the player wrote to stdout, None if the deadline passed, b"" at the end and ever after.

        It returns bytes that arrived before the deadline even if it is called later. It returns at most 1 MiB at a
        time, so the caller decides how much to buffer.

        Raises:
            SandboxLost: the engine lost the sandbox, which is an infrastructure fault.
            AmbiguousExit: the stream ended, and the engine cannot be shown to have run all the time; or the runtime
                failed to start the player for an unknown reason.
        """
        ...

    def stop(self) -> Exit:
        """Kills the player and all processes it started, and removes what the sandbox used. Safe to call twice."""
        ...


class ImageStore(Protocol):
    """Builds, loads, saves and pushes images. Of an image's programs it runs only the steps of a build."""

    def build(self, request: BuildRequest, on_line: Callable[[str], None]) -> str:
        """Builds an image, tags it and returns its id; calls `on_line` with each printable line of the builder's log.

        Raises:
            Rejected: a base image is missing, a step failed, or the build exceeded a limit.
            InfrastructureFault: the engine failed.
        """
        ...

    def normalise_config(self, config: Mapping[str, Any]) -> bytes:
        """Returns the configuration with which an image is loaded: a new one with only what a player needs.

        That is the command, its folder, the environment variables that players get, the platform and the layers. The
        digest of these bytes is the image's id. A configuration with nothing else stays unchanged.

        Raises:
            Rejected: one of these fields has a wrong type.
        """
        ...

    def load(self, config: Mapping[str, Any], layers: Sequence[ImageLayer], tag: str) -> str:
        """Loads an image with its normalised configuration, under this tag only; returns its id.

        Raises:
            Rejected: the configuration names other layers, or the engine cannot unpack them.
            InfrastructureFault: the engine failed, or reported another id.
        """
        ...

    def save(self, reference: str) -> Iterator[bytes]:
        """Yields an image as a docker-archive, as the engine writes it. Raises UsageError if there is no such image."""
        ...

    def push(self, image: str, name: str, login: tuple[str, str] | None) -> None:
        """Tags an image of the engine with a name in a registry, and pushes it; keeps the tag.

        `login` are user name and password; None to push without credentials.

        Raises:
            UsageError: the engine has no such image, or the registry denies it to this user.
            InfrastructureFault: the engine or the registry failed.
        """
        ...

    def untag(self, tag: str) -> None:
        """Removes a tag, and with its last tag the image; does nothing if there is no such tag."""
        ...


class Backend(Protocol):
    """Admits images and starts sandboxes."""

    name: ClassVar[str]

    def require_available(self, runtime: Runtime | None = None, gpus: int = 0) -> None:
        """Raises BackendUnavailable, with the remedy, if this backend cannot run players here.

        `runtime` is the container runtime to use, and `gpus` the number of GPUs of each player, if they are known.
        """
        ...

    def diagnose(self) -> list[Check]:
        """Returns the checks of this backend for `sparring doctor`; it never raises."""
        ...

    def admit(self, source: ImageSource) -> Image:
        """Returns the image to start, fixed by its digest. Raises Rejected if the source cannot be started here."""
        ...

    def fresh_copy(self, image: Image, run: str) -> Image:
        """Returns a copy of an admitted image to start in its place: the same files, without state in the kernel.

        Sandboxes of one image share its files, and the kernel keeps state about look-ups and reads of them. The copy's
        `rollback` removes it, after its sandboxes have ended; `clean_up` for the run does so, too. A backend that
        cannot copy files, or does not share them, returns `image`.

        Raises:
            InfrastructureFault: the copy could not be made.
        """
        ...

    def inspect_image(self, reference: str, *, files: bool = True, max_bytes: int | None = None) -> ImageFacts:
        """Returns facts about an image without starting it, also about its files if `files`.

        An image of more than `max_bytes` bytes counts as a problem.

        Raises:
            UsageError: this backend has no images, or none with that name.
        """
        ...

    def image_store(self) -> ImageStore:
        """Returns the store of this backend's images. Raises UsageError, with the remedy, if it has no images."""
        ...

    def start(self, spec: SandboxSpec) -> Sandbox:
        """Starts a player. Raises SandboxLost or BackendUnavailable, but not for a player that ends at once."""
        ...

    def clean_up(self, *, spare_run: str | None = None, ended_run: str | None = None) -> int:
        """Removes what dead orchestrators left behind, and what remains of our own run `ended_run`; spares `spare_run`.

        Returns the number of things removed.
        """
        ...


class StreamTail:
    """The last bytes of a stream."""

    def __init__(self, limit: int = STDERR_TAIL_BYTES) -> None:
        self._limit = limit
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        """Adds bytes, and discards old ones beyond the limit."""
        self._bytes += data
        if len(self._bytes) > 2 * self._limit:
            del self._bytes[: -self._limit]

    def __bytes__(self) -> bytes:
        return bytes(self._bytes[-self._limit :])
