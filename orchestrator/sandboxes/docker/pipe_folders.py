"""Where containers get FIFOs for their streams, and whether they can have them: which a probe decides.

A runtime may refuse FIFOs of the host (gVisor without `host-fifo`, virtual machines), an engine may not see this
machine's files, and the static shell comes from the runner's image, which may not be there. Each runtime is tried once
in the life of a process, with a container of that image; where it fails, players keep the engine's attach stream.
"""

import io
import secrets
import tarfile
import threading
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any, Protocol

import structlog

from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.base import Image, Sandbox, SandboxSpec
from orchestrator.sandboxes.docker import player_fifos
from orchestrator.sandboxes.docker.player_fifos import PlayerFifos
from orchestrator.sandboxes.image_files.image_facts import inert_container_options
from orchestrator.sandboxes.linux import owned_folders
from orchestrator.sandboxes.self_probe import PROBE_LIMITS

_log = structlog.get_logger()
_RUNNER_IMAGES = "sparring/runner"
_SHELL_IN_IMAGE = "/opt/runner/sh"
_MAX_ARCHIVE_BYTES = 16 * 1024 * 1024
_WORD = b"sparring-fifos\n"
PROBE_SECONDS = 10.0
"""Seconds that a container has to answer over FIFOs."""


class FifosRefusedError(Exception):
    """Players here cannot have FIFOs; the message says why."""


class ShellEngine(Protocol):
    """What is needed of the engine to get the shell. Each call raises SandboxLost when the engine fails."""

    def images(self, pattern: str) -> Sequence[Mapping[str, Any]]:
        """Returns the images with such a name."""
        ...

    def create(self, options: Mapping[str, Any], name: str) -> str:
        """Creates a container and returns its id."""
        ...

    def read_file_archive(self, container: str, path: str) -> Generator[bytes, None, None]:
        """Yields a file of a container as a tar stream in pieces."""
        ...

    def remove(self, container: str) -> None:
        """Removes it; nothing happens when it is gone."""
        ...


class PipeFolders:
    """The folder of one orchestrator, with the shell and a folder for each sandbox. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._refusals: dict[Runtime, str] = {}

    def refusal(self, runtime: Runtime, find_out: Callable[[Runtime], None]) -> str:
        """Returns why players under a runtime have no FIFOs; empty where they have them.

        The first call for a runtime has `find_out` raise FifosRefusedError where it is so; another error of it is
        raised, and the next call asks again.
        """
        with self._lock:
            if self._folder is not None and not (self._folder / "sh").exists():
                self._folder = None  # what cleans temporary folders has taken it away
                self._refusals.clear()
            if runtime not in self._refusals:
                try:
                    find_out(runtime)
                    self._refusals[runtime] = ""
                except FifosRefusedError as error:
                    self._refusals[runtime] = str(error)
                    _log.info("fifos_refused", runtime=runtime.value, reason=str(error))
            return self._refusals[runtime]

    def make(self) -> PlayerFifos:
        """Makes the FIFOs of one sandbox. Raises SandboxLost where this machine has no room for them."""
        if self._folder is None:
            raise ValueError("there is no shell yet: `install` it first")
        try:
            return PlayerFifos.make(self._folder, self._folder / "sh")
        except OSError as error:
            raise SandboxLost(f"cannot make the FIFOs of a sandbox: {error}") from error

    def install(self, shell: bytes) -> None:
        """Puts the shell where containers get it from; only root may read it (see `images/runner/prepare`)."""
        if self._folder is None:
            self._folder = owned_folders.make_folder(player_fifos.PREFIX)
            weakref.finalize(self, rmtree, self._folder, ignore_errors=True)
        path = self._folder / "sh"
        path.unlink(missing_ok=True)
        path.write_bytes(shell)
        path.chmod(0o111)


def probe_spec(image: Image, runtime: Runtime) -> SandboxSpec:
    """Returns the specification of a player that echoes one word. It is the mounted shell, so any image works."""
    command = (player_fifos.SHELL, "-c", 'read -r word; echo "$word"')
    return SandboxSpec(
        replace(image, command=command), SandboxPolicy(PROBE_LIMITS, runtime=runtime), run="probe", job="fifos"
    )


def answers(sandbox: Sandbox) -> bool:
    """Returns whether the player of `probe_spec` echoes its word within `PROBE_SECONDS`."""
    deadline = time.monotonic() + PROBE_SECONDS
    answer = b""
    if sandbox.send(_WORD, deadline):
        while len(answer) < len(_WORD) and (data := sandbox.receive(deadline)):
            answer += data
    return answer == _WORD


def find_runner(engine: ShellEngine) -> Image:
    """Returns the runner's image. Raises FifosRefusedError where the engine has none."""
    found = engine.images(_RUNNER_IMAGES)
    if not found:
        raise FifosRefusedError("there is no image sparring/runner, which the static shell is taken from")
    return Image(digest=str(found[0]["Id"]), name=_RUNNER_IMAGES)


def read_shell(engine: ShellEngine, image: Image, labels: Mapping[str, str]) -> bytes:
    """Returns the static shell of the runner's image, from a container that bears `labels` and never starts.

    Raises:
        FifosRefusedError: there is none in it.
        SandboxLost: the engine failed.
    """
    options = inert_container_options({"Id": image.digest}, labels)
    container = engine.create(options, f"sparring-look-{secrets.token_hex(8)}")
    archive = bytearray()
    try:
        with closing(engine.read_file_archive(container, _SHELL_IN_IMAGE)) as pieces:
            for piece in pieces:
                archive += piece
                if len(archive) > _MAX_ARCHIVE_BYTES:
                    raise FifosRefusedError(f"{_SHELL_IN_IMAGE} of {image.name} has more than 16 MiB")
    finally:
        engine.remove(container)
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            entry = tar.next()
            file = tar.extractfile(entry) if entry is not None and entry.isreg() else None
            shell = b"" if file is None else file.read()
    except tarfile.TarError as error:
        raise FifosRefusedError(f"{_SHELL_IN_IMAGE} of {image.name} cannot be read: {error}") from error
    if not shell:
        raise FifosRefusedError(f"{_SHELL_IN_IMAGE} of {image.name} is no file")
    return shell
