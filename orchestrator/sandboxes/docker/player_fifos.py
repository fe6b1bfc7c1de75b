"""Three FIFOs (named pipes) for a player in a container, in place of the pipes that an engine attaches to it.

Every byte on an engine's attach stream passes three processes: the shim, the engine and the orchestrator. A FIFO in a
folder that is mounted in the container connects the player and the orchestrator directly. The folder is mounted
read-only, belongs to one sandbox and is removed with it; the player may only read `in` and write to `out` and `err`.
An engine always attaches its own pipes. So the container starts a static shell, which is mounted too: it redirects its
streams to the FIFOs and executes the player. It is the shell of a pod's player (see `images/runner`), which needs
nothing from the image. Only root may read it.

Opening a FIFO normally blocks until the other end is open. Here nothing blocks: before the container starts, the
orchestrator holds both ends of `in` and the reading ends of `out` and `err`.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from orchestrator.sandboxes.linux import owned_folders
from orchestrator.sandboxes.linux.constant_files import MountSources
from orchestrator.sandboxes.linux.sandbox_owner import Owner

FOLDER = "/io"
"""The folder's path in the container. Admission refuses an image that has anything but a folder there."""
SHELL = f"{FOLDER}/sh"
PREFIX = "sparring-fifos-"
"""The prefix of the name of an orchestrator's folder (see `owned_folders`)."""
_MODES = (("in", 0o644), ("out", 0o622), ("err", 0o622))
_PIPE_BYTES = 1024 * 1024
# The script searches PATH for a name without a slash, as an engine does; the shell would run its builtin of that name.
# No image exports a variable with the script's names (see `domain.environment`), so the player gets none of them.
_STREAMS = f"<{FOLDER}/in >{FOLDER}/out 2>{FOLDER}/err"
_SCRIPT = f"""unset PWD OLDPWD SHLVL
case $1 in */*) exec "$@" {_STREAMS} ;; esac
sparring_name=$1
sparring_path=$PATH:
shift
while [ -n "$sparring_path" ]; do
  sparring_file=${{sparring_path%%:*}}/$sparring_name
  sparring_path=${{sparring_path#*:}}
  if [ -f "$sparring_file" ] && [ -x "$sparring_file" ]; then exec "$sparring_file" "$@" {_STREAMS}; fi
done
echo "$sparring_name: not found in PATH" >&2
exit 127
"""
LAUNCHER = (SHELL, "-c", _SCRIPT, "sparring")
"""The arguments put before a player's command."""


@dataclass(frozen=True, slots=True)
class FifoEnds:
    """The orchestrator's non-blocking file descriptors. `stdin_reader` keeps `stdin` writable without a player."""

    stdin: int
    stdout: int
    stderr: int
    stdin_reader: int
    _closed: set[int] = field(default_factory=set)

    def close_stdin(self) -> None:
        """Closes the writing end of `in`: the player reads the end of its stdin. Safe to call twice."""
        self._close(self.stdin)

    def close(self) -> None:
        """Closes all of them. Safe to call twice."""
        for handle in (self.stdin, self.stdout, self.stderr, self.stdin_reader):
            self._close(handle)

    def _close(self, handle: int) -> None:
        if handle not in self._closed:
            self._closed.add(handle)
            os.close(handle)


@dataclass(frozen=True, slots=True)
class PlayerFifos:
    """The folder of one sandbox on this machine, and the static shell that is mounted with it."""

    folder: Path
    shell: Path

    @classmethod
    def make(cls, parent: Path, shell: Path) -> Self:
        """Makes the FIFOs in a new folder in `parent`, which only this user may enter. Raises OSError."""
        fifos = cls(parent / secrets.token_hex(8), shell)
        fifos.folder.mkdir()
        try:
            for name, mode in _MODES:
                os.mkfifo(fifos.folder / name)
                (fifos.folder / name).chmod(mode)  # whatever the umask is
            (fifos.folder / Path(SHELL).name).touch()  # the mount point of the shell
            fifos.folder.chmod(0o755)
        except OSError:
            fifos.remove()
            raise
        return fifos

    @property
    def mounts(self) -> MountSources:
        """The read-only bind mounts of the container."""
        return ((FOLDER, str(self.folder)), (SHELL, str(self.shell)))

    def open(self) -> FifoEnds:
        """Opens the orchestrator's ends without waiting for the player. Raises OSError, with none left open."""
        flags = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
        with contextlib.ExitStack() as opened:

            def open_end(name: str, direction: int) -> int:
                handle = os.open(self.folder / name, direction | flags)
                opened.callback(os.close, handle)
                with contextlib.suppress(OSError):  # at the user's limit of pipe memory; small pipes work too
                    fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
                return handle

            stdin_reader = open_end("in", os.O_RDONLY)  # first: a FIFO without a reader cannot be opened for writing
            ends = FifoEnds(
                stdin=open_end("in", os.O_WRONLY),
                stdout=open_end("out", os.O_RDONLY),
                stderr=open_end("err", os.O_RDONLY),
                stdin_reader=stdin_reader,
            )
            opened.pop_all()
            return ends

    def remove(self) -> None:
        """Removes the folder. What cannot be removed is removed with the orchestrator's folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def remove_dead_folders(here: Owner) -> int:
    """Removes the folders of orchestrators that are known to be dead; returns how many."""
    return owned_folders.remove_dead_folders(PREFIX, here)
