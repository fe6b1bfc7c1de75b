"""Three FIFOs (named pipes) for a player in a container, in place of the pipes that an engine attaches to it.

Every byte on an engine's attach stream passes three processes: the shim, the engine and us. A FIFO in a folder that is
mounted in the container is a pipe between the player and us. The folder is mounted read-only, belongs to one sandbox
and goes with it; the player may read `in` and write to `out` and `err`, and nothing else. An engine attaches its own
pipes whatever it is asked, so a static shell that is mounted too becomes the player on the FIFOs. The shell is the one
of a pod's player (see `images/runner`): a program that needs nothing of the image. Nobody but root may read it.

Opening a FIFO waits for the other side. Nothing waits here: we hold both ends of `in` and the reading ends of the two
others before the container starts, so neither we nor the shell has anybody to wait for.
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
from orchestrator.sandboxes.linux.owner import Owner

FOLDER = "/io"
"""Where the player finds them. Admission refuses an image that has anything but a folder there."""
SHELL = f"{FOLDER}/sh"
PREFIX = "sparring-fifos-"
"""How the name of an orchestrator's folder begins (see `owned_folders`)."""
_MODES = (("in", 0o644), ("out", 0o622), ("err", 0o622))
_PIPE_BYTES = 1024 * 1024
# A word without a slash is looked for in PATH, as an engine does; the shell would take its own program of that name. No
# image exports a variable with a name of ours (see `domain.environment`), so the player gets none of them.
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
"""What stands before a player's command."""


@dataclass(frozen=True, slots=True)
class FifoEnds:
    """Our ends of the FIFOs; none of them blocks. `stdin_reader` keeps `stdin` open for writing without a player."""

    stdin: int
    stdout: int
    stderr: int
    stdin_reader: int
    _closed: set[int] = field(default_factory=set)

    def close_stdin(self) -> None:
        """Closes what is written to: the player reads the end of its stdin. Safe to call twice."""
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
    """The folder of one sandbox on this machine, and the program that is its shell."""

    folder: Path
    shell: Path

    @classmethod
    def make(cls, parent: Path, shell: Path) -> Self:
        """Makes the FIFOs in a new folder in `parent`, which nobody but us may enter. Raises OSError."""
        made = cls(parent / secrets.token_hex(8), shell)
        made.folder.mkdir()
        try:
            for name, mode in _MODES:
                os.mkfifo(made.folder / name)
                (made.folder / name).chmod(mode)  # whatever our umask is
            (made.folder / Path(SHELL).name).touch()  # the shell is mounted upon it
            made.folder.chmod(0o755)
        except OSError:
            made.remove()
            raise
        return made

    @property
    def mounts(self) -> MountSources:
        """What is mounted in the container, read-only."""
        return ((FOLDER, str(self.folder)), (SHELL, str(self.shell)))

    def open(self) -> FifoEnds:
        """Opens our ends, of which none waits for the player. Raises OSError, with none left open."""
        flags = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
        with contextlib.ExitStack() as opened:

            def open_end(name: str, direction: int) -> int:
                handle = os.open(self.folder / name, direction | flags)
                opened.callback(os.close, handle)
                with contextlib.suppress(OSError):  # a user's share of pipe memory may be used up; small pipes work too
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
        """Removes the folder. What cannot be removed goes with that of the orchestrator."""
        shutil.rmtree(self.folder, ignore_errors=True)


def remove_dead_folders(here: Owner) -> int:
    """Removes the folders of orchestrators that were killed; returns how many. What nobody can judge is spared."""
    return owned_folders.remove_dead_folders(PREFIX, here)
