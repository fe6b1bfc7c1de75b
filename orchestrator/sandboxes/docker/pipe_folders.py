"""Makes the FIFOs of containers, and tests with a probe container whether a runtime can use them.

A runtime may refuse FIFOs of the host (gVisor without `host-fifo`, virtual machines), an engine may have another file
system than this machine, and the runner image, which contains the static shell, may be missing. Each process tries
each runtime once, with a container of that image. If that fails, players use the engine's attach stream.
"""

import io
import secrets
import tarfile
import threading
import time
import weakref
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any, Protocol

from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.errors import SandboxLost
from orchestrator.logs import get_logger
from orchestrator.sandboxes.base import Image, Sandbox, SandboxSpec
from orchestrator.sandboxes.docker import player_fifos
from orchestrator.sandboxes.docker.player_fifos import PlayerFifos
from orchestrator.sandboxes.image_files.image_facts import inert_container_options
from orchestrator.sandboxes.linux import owned_folders
from orchestrator.sandboxes.self_probe import PROBE_LIMITS

_log = get_logger()
_RUNNER_IMAGE = "sparring/runner:cpu"
_SHELL_IN_IMAGE = "/opt/runner/sh"
_MAX_ARCHIVE_BYTES = 16 * 1024 * 1024
_PROBE_LINE = b"sparring-fifos\n"
PROBE_SECONDS = 10.0
"""Seconds within which a container has to answer over FIFOs."""


class FifosRefusedError(Exception):
    """Players cannot have FIFOs here; the message gives the reason."""


class ShellEngine(Protocol):
    """The engine's calls that `find_runner` and `read_shell` use. Each raises SandboxLost if the engine fails."""

    def image(self, reference: str) -> Mapping[str, Any] | None:
        """Returns the engine's description of an image, None if it has no such image."""
        ...

    def create(self, options: Mapping[str, Any], name: str) -> str:
        """Creates a container and returns its id."""
        ...

    def read_file_archive(self, container: str, path: str) -> Generator[bytes, None, None]:
        """Yields a tar stream, in pieces, of one file of a container."""
        ...

    def remove(self, container: str) -> None:
        """Removes a container; does nothing if there is no such container."""
        ...


class PipeFolders:
    """The folder of one orchestrator, with the shell and a folder for each sandbox. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._refusals: dict[Runtime, str] = {}

    def refusal(self, runtime: Runtime, find_out: Callable[[Runtime], None]) -> str:
        """Returns why players under a runtime have no FIFOs; empty if they have them.

        The first call for a runtime calls `find_out`, which raises FifosRefusedError if the runtime cannot use them.
        Any other error is raised to the caller, and the next call tries again.
        """
        with self._lock:
            if self._folder is not None and not (self._folder / "sh").exists():
                self._folder = None  # a cleaner of temporary folders removed it
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
        """Makes the FIFOs of one sandbox. Raises SandboxLost if that fails, such as on a full disk."""
        if self._folder is None:
            raise ValueError("there is no shell yet: `install` it first")
        try:
            return PlayerFifos.make(self._folder, self._folder / "sh")
        except OSError as error:
            raise SandboxLost(f"cannot make the FIFOs of a sandbox: {error}") from error

    def install(self, shell: bytes) -> None:
        """Writes the shell that is mounted in containers; only root may read it (see `images/runner/prepare`)."""
        if self._folder is None:
            self._folder = owned_folders.make_folder(player_fifos.PREFIX)
            weakref.finalize(self, rmtree, self._folder, ignore_errors=True)
        path = self._folder / "sh"
        path.unlink(missing_ok=True)
        path.write_bytes(shell)
        path.chmod(0o111)


def probe_spec(image: Image, runtime: Runtime) -> SandboxSpec:
    """Returns the specification of a player that echoes one line. It runs the mounted shell, so any image works."""
    command = (player_fifos.SHELL, "-c", 'read -r word; echo "$word"')
    return SandboxSpec(
        replace(image, command=command), SandboxPolicy(PROBE_LIMITS, runtime=runtime), run="probe", job="fifos"
    )


def answers(sandbox: Sandbox) -> bool:
    """Returns whether the player of `probe_spec` echoes its line within `PROBE_SECONDS`."""
    deadline = time.monotonic() + PROBE_SECONDS
    answer = b""
    if sandbox.send(_PROBE_LINE, deadline):
        while len(answer) < len(_PROBE_LINE) and (data := sandbox.receive(deadline)):
            answer += data
    return answer == _PROBE_LINE


def find_runner(engine: ShellEngine) -> Image:
    """Returns the runner's image. Raises FifosRefusedError if the engine has none."""
    image = engine.image(_RUNNER_IMAGE)
    if image is None:
        raise FifosRefusedError(f"there is no image {_RUNNER_IMAGE}, which contains the static shell")
    return Image(digest=str(image["Id"]), name=_RUNNER_IMAGE)


def read_shell(engine: ShellEngine, image: Image, labels: Mapping[str, str]) -> bytes:
    """Returns the static shell of the runner's image, read from a container with `labels` that never starts.

    Raises:
        FifosRefusedError: the image has no shell, or an unreadable one.
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
        raise FifosRefusedError(f"{_SHELL_IN_IMAGE} of {image.name} is not a file")
    return shell
