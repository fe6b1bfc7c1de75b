"""The seam between execution and whatever runs a player: bytes in, bytes out, and a way to end it.

A new backend is a package in this folder whose `__init__` assigns `plugin`; tests/contract/ finds it by listing the
folder and holds it to what is written here. Deadlines are moments of `time.monotonic()`.

Whose fault it is, is decided here, at the boundary: what the engine did wrong is an `InfrastructureFault`; what the
player did ends its stream, and `Sandbox.stop` says how it ended.
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
"""How many bytes of a player's stderr are kept: the last ones."""
POLL_SECONDS = 0.5
"""Seconds between two looks at whether the operator cancelled, while a player is waited for."""


def never_cancelled() -> bool:
    """Nobody cancels."""
    return False


class Ending(StrEnum):
    """How a sandbox ended."""

    CLEAN = "clean"
    """The player exited by itself with code 0."""
    CRASHED = "crashed"
    """The player exited by itself with another code, or by a signal of its own."""
    OUT_OF_MEMORY = "out-of-memory"
    """The kernel killed it, or a process that it had started, at its memory limit, whatever the exit code."""
    STOPPED = "stopped"
    """It was still running, and we ended it."""
    LOST = "lost"
    """Not the player's doing, or nobody can tell whose it was: see `Sandbox.receive`."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a sandbox ended and what it used.

    `code` is the exit status, 128 + n for signal n, None where it was not observed or is our own doing. `stderr` is
    the last `STDERR_TAIL_BYTES` bytes the player wrote there: hostile text. The bytes are counted as they went through
    our hands: what a player wrote and nobody read is not among them.
    """

    ending: Ending
    code: int | None = None
    wall_seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_bytes: int | None = None
    peak_pids: int | None = None
    """The most processes and threads at a time."""
    kills: int = 0
    """How often the kernel killed in it at the memory limit."""
    sampled: bool = False
    """Whether the usage was looked at now and then: its last moments are missing."""
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
    """How to start it inside `folder`, for backends without images."""
    trusted: bool = False
    """Whether the organizers wrote it themselves."""
    flavour: str = "cpu"
    """How an image of `folder` is built."""
    registry_name: str = ""
    """Under which name it was pushed, for nodes that pull: what lies there has to be `image`, a received one's id."""


@dataclass(frozen=True, slots=True)
class Image:
    """What a backend starts. `digest` is the identity, fixed at admission; `name` is for people."""

    digest: str
    name: str
    command: tuple[str, ...] = ()
    folder: Path | None = None
    reference: str = ""
    """What a cluster's nodes pull, by digest; empty where nothing is pulled."""
    unset_variables: tuple[str, ...] = ()
    """The names among its variables that a player does not get, where a cluster's node would pass them on."""
    rollback: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    """Removes what `admit` or `fresh_copy` made for it, if the caller refuses it or needs it no longer; None if that is
    nothing."""


@dataclass(frozen=True, slots=True)
class ImageTree:
    """What lies in an image's file system. Names are printable, and only the first of each kind are kept.

    The kinds: `set_id` (set-user-id and set-group-id), `capable` (with capabilities), `devices`, `writable` (by all).
    """

    files: int
    size: int
    """Bytes of all files together."""
    counts: Mapping[str, int]
    names: Mapping[str, tuple[str, ...]]
    cut_reason: str = ""
    """Why it was not looked at to its end; empty when it was."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What an image says of itself, and what is in it. All texts but those of `problems` are hostile, and as they are.

    `layers` are sizes in bytes, the lowest first. `tree` is None where the files were not asked for.
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
    """`NAME=value`, secrets included."""
    passed_variables: frozenset[str]
    """The names among them that a player gets."""
    problems: tuple[Problem, ...]
    """Why it is not admitted; empty when it is."""
    tree: ImageTree | None


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """Everything a backend needs to start one sandbox."""

    image: Image
    policy: SandboxPolicy
    run: str
    """The round's run id; `sweep` removes what a dead run left."""
    job: str
    device: str | None = None
    """The UUID of the one GPU it may use."""

    @property
    def limits(self) -> Limits:
        """The amounts in its policy."""
        return self.policy.limits


@dataclass(frozen=True, slots=True)
class ImageLayer:
    """One layer of an image that is brought in: a tar without compression, looked at before.

    `diff_id` is the digest of its bytes, `size` how many there are, `read_pieces` yields them in pieces.
    """

    diff_id: str
    size: int
    read_pieces: Callable[[], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What an image is built from: the context as a tar in pieces, whose `Dockerfile` was looked at before.

    `bases` are the images it stands on; without `network` each has to be here. Sizes are bytes.
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
    """What composition tells every backend; each takes what it needs, and is built as `plugin(settings)`."""

    workspace: Path
    """A folder of the orchestrator's own, for snapshots of submissions."""
    python_path: tuple[Path, ...] = ()
    """Folders that a player's Python finds modules in, where the player shares our file system."""
    python: str = sys.executable
    """The interpreter that `python` means in a command, where the player shares our file system."""
    allow_unisolated: bool = False
    """Whether strangers' submissions may run without isolation."""


class CheckStatus(StrEnum):
    """What `sparring doctor` found."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Check:
    """One fact about this machine, with the remedy where it is not as it should be."""

    name: str
    status: CheckStatus
    detail: str
    remedy: str = ""


class Sandbox(Protocol):
    """One running player."""

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:
        """Writes all of `data` to the player's stdin.

        It keeps reading what the player writes meanwhile, so that two full pipes never wait for each other. While the
        player takes nothing it asks every `POLL_SECONDS` seconds whether it is `cancelled`.

        Returns False if the deadline passed, its stdin is closed, or it was cancelled. After half a message nothing
        more is written.
        """
        ...

    def receive(self, deadline: float) -> bytes | None:
        """Returns what the player wrote to stdout, None when the deadline passed; b"" is the end and stays the end.

        Bytes that arrived before the deadline are returned even when it is asked for them later. It returns at most
        1 MiB at a time, so the caller decides how much it holds.

        Raises:
            SandboxLost: the engine lost the sandbox; ours, not the player's.
            AmbiguousExit: its stream ended, and the engine was not shown to have lived through that; or the runtime
                failed to start it, and nobody can tell why.
        """
        ...

    def stop(self) -> Exit:
        """Ends the player and all it started, and removes what the sandbox used. Safe to call twice."""
        ...


class ImageStore(Protocol):
    """Where images are made, brought in and taken out. Nothing in one is started but the steps of a build."""

    def build(self, request: BuildRequest, on_line: Callable[[str], None]) -> str:
        """Builds an image, tags it and returns its id; `on_line` gets the builder's words, printable, line by line.

        Raises:
            Rejected: a base is not here, a step failed, or it took more than the recipe allows.
            InfrastructureFault: the engine failed.
        """
        ...

    def normalise_config(self, config: Mapping[str, Any]) -> bytes:
        """Returns the configuration with which an image is loaded: a new one with only what a player needs.

        That is the command, its folder, the environment as players get it, the platform and the layers. The digest of
        these bytes is the image's id. A configuration that has nothing else stays as it is.

        Raises:
            Rejected: one of these fields has a wrong type.
        """
        ...

    def load(self, config: Mapping[str, Any], layers: Sequence[ImageLayer], tag: str) -> str:
        """Loads an image with its normalised configuration, under this tag only; returns its id.

        Raises:
            Rejected: the configuration names other layers, or the engine cannot unpack them.
            InfrastructureFault: the engine failed, or made another image of it.
        """
        ...

    def save(self, reference: str) -> Iterator[bytes]:
        """Yields an image as the engine writes it (a docker-archive). Raises UsageError when there is none."""
        ...

    def push(self, image: str, name: str, login: tuple[str, str] | None) -> None:
        """Tags an image of the engine's with a name in a registry, and pushes it there; the tag stays.

        `login` are user and password; None to push as nobody.

        Raises:
            UsageError: the engine has no such image, or the registry does not take it from this user.
            InfrastructureFault: the engine or the registry failed.
        """
        ...

    def untag(self, tag: str) -> None:
        """Takes a tag away, and the image with its last one; nothing happens when it is gone."""
        ...


class Backend(Protocol):
    """What opens sandboxes."""

    name: ClassVar[str]

    def require_available(self, runtime: Runtime | None = None, gpus: int = 0) -> None:
        """Raises BackendUnavailable, with the remedy, when this backend cannot play here.

        `runtime` is what has to run the containers, and `gpus` how many GPUs each player gets, where that is known.
        """
        ...

    def diagnose(self) -> list[Check]:
        """Returns what `sparring doctor` shows of this backend; it never raises."""
        ...

    def admit(self, source: ImageSource) -> Image:
        """Fixes what will be started. Raises Rejected when the source cannot be started here."""
        ...

    def fresh_copy(self, image: Image, run: str) -> Image:
        """Returns an admitted image to start in place of `image`: the same files, of which the kernel knows nothing.

        Sandboxes of one image share its files, and the kernel remembers what was looked up and read among them. The
        copy's `rollback` removes it, once its sandboxes are gone, and so does `clean_up` for the run. A backend that
        cannot copy files, or does not share them, returns `image`.

        Raises:
            InfrastructureFault: it could not be made.
        """
        ...

    def inspect_image(self, reference: str, *, files: bool = True, max_bytes: int | None = None) -> ImageFacts:
        """Returns what an image is, without starting it; `files`: what lies in it too; `max_bytes`: bytes it may have.

        Raises:
            UsageError: this backend has no images, or none of that name.
        """
        ...

    def image_store(self) -> ImageStore:
        """Returns where this backend's images are made. Raises UsageError, with the remedy, when it has no images."""
        ...

    def start(self, spec: SandboxSpec) -> Sandbox:
        """Starts a player. Raises SandboxLost or BackendUnavailable; a player that dies at once is no error here."""
        ...

    def clean_up(self, *, spare_run: str | None = None, ended_run: str | None = None) -> int:
        """Removes what dead runs left behind, and what is left of our own run `ended_run`; spares `spare_run`.

        Returns how many things it removed.
        """
        ...


class StreamTail:
    """The last bytes of a stream."""

    def __init__(self, limit: int = STDERR_TAIL_BYTES) -> None:
        self._limit = limit
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        """Takes more of the stream and forgets what is too old."""
        self._bytes += data
        if len(self._bytes) > 2 * self._limit:
            del self._bytes[: -self._limit]

    def __bytes__(self) -> bytes:
        return bytes(self._bytes[-self._limit :])
