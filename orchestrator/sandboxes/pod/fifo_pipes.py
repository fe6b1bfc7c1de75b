"""The five FIFOs between a driver and the player in the other container of its pod, and how they are opened.

`images/runner/prepare` makes them and `images/runner/play` is on their other side:

    ctl   to the player's first process: a word that only the two know, once; its end ends the player
    end   from that process: what it is and, later, how the player ended (see `exit_channel`)
    in, out, err   the player's stdin, stdout and stderr

Opening a FIFO waits for the other side, and where that never comes for ever. So nothing here waits in an open: reading
ends open at once, and a writing end that has no reader yet is tried again until the deadline.
"""

import contextlib
import errno
import fcntl
import os
import select
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import BackendUnavailable, PlayerAbsent, PodUsedUp, SandboxLost
from orchestrator.sandboxes.pod.exit_channel import ExitChannel

FIFO_NAMES = ("ctl", "in", "out", "err", "end")
_USED_MARKER = "taken"
_PIPE_BYTES = 1024 * 1024
_BLOCK = 4096
_PAUSE = 0.02
_INSPECT_REMEDY = "see what became of its container, `player` or `attack` (kubectl describe pod)"


@dataclass(eq=False)
class FifoPipes:
    """Our ends, by the names of the FIFOs."""

    handles: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        return self.handles[name]

    def close(self, *names: str) -> None:
        """Closes some of them, or all; those that are closed stay it."""
        for name in names or tuple(self.handles):
            if name in self.handles:
                os.close(self.handles.pop(name))


def missing_fifos(folder: Path) -> list[str]:
    """Returns the names of the FIFOs that are not in a folder."""
    return [name for name in FIFO_NAMES if not _is_fifo(folder / name)]


def player_was_started(folder: Path) -> bool:
    """Whether this pod's player was started before."""
    return (folder / _USED_MARKER).exists()


def release_waiting_player(folder: Path) -> bool:
    """Ends a player's container that waits for its word; returns whether one did."""
    try:
        os.close(_open_fifo(folder / "ctl", os.O_WRONLY))
    except (OSError, BackendUnavailable):  # nobody reads it, or there is no pod
        return False
    return True


def start_player(folder: Path, token: str, channel: ExitChannel, deadline: float) -> FifoPipes:
    """Has the player started; returns our ends of its FIFOs once it is about to run and `notes.here` is known.

    Raises:
        BackendUnavailable: there are no FIFOs.
        PodUsedUp: a player was started here before.
        PlayerAbsent: the player's container did not come up by the deadline, or ended before the player was started.
        SandboxLost: what it says cannot be understood.
    """
    pipes = FifoPipes()
    try:
        for name in ("end", "err", "out"):  # first, so that the process at the other side need not wait to open it
            pipes.handles[name] = _open_fifo(folder / name, os.O_RDONLY)
        pipes.handles["ctl"] = _open_for_writing(folder / "ctl", deadline)
        _mark_used(folder)
        _send_token(pipes["ctl"], token)
        pipes.handles["in"] = _open_for_writing(folder / "in", deadline, pipes["ctl"])
        _await_identity(pipes["end"], channel, deadline)
    except BaseException:
        pipes.close()
        raise
    for name in ("in", "out", "err"):
        with contextlib.suppress(OSError):  # a user's share of pipe memory may be used up; small pipes work too
            fcntl.fcntl(pipes[name], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return pipes


def _mark_used(folder: Path) -> None:
    """Notes for the rest of the pod's life that its player is started. Raises PodUsedUp when it was before."""
    try:
        os.close(os.open(folder / _USED_MARKER, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError as error:
        raise PodUsedUp("this pod's player was started before; what is left is for another pod") from error
    except OSError as error:
        raise SandboxLost(
            f"cannot write to {folder}: {error}; it is mounted writable in the driver's container"
        ) from error


def _send_token(ctl: int, word: str) -> None:
    """Tells the first process the word; a FIFO that is empty takes so little whole."""
    try:
        os.write(ctl, f"{word}\n".encode("ascii"))
    except BrokenPipeError as error:
        raise PlayerAbsent(f"the player's container ended before it was spoken to; {_INSPECT_REMEDY}") from error


def _open_for_writing(path: Path, deadline: float, life: int | None = None) -> int:
    """Opens a FIFO for writing as soon as somebody reads it; `life` has no reader where nobody will."""
    started_at = time.monotonic()
    while True:
        try:
            return _open_fifo(path, os.O_WRONLY)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        if life is not None and _has_no_reader(life):
            raise PlayerAbsent(f"the player's container ended before the player was started; {_INSPECT_REMEDY}")
        if time.monotonic() >= deadline:
            waited = time.monotonic() - started_at
            raise PlayerAbsent(
                f"nobody opened {path.name!r} within {waited:.1f} s: the player did not start; {_INSPECT_REMEDY}"
            )
        time.sleep(_PAUSE)


def _await_identity(end: int, notes: ExitChannel, deadline: float) -> None:
    """Reads until the first process, before it starts the player, has reported the player's user and rights."""
    poll = select.poll()
    poll.register(end, select.POLLIN)
    while notes.identity is None:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise SandboxLost(
                "the first process of the player's container did not report the player's user and rights; "
                "run both containers from the same runner image"
            )
        data = os.read(end, _BLOCK)
        if not data:
            raise SandboxLost(f"the player's container ended as it started; {_INSPECT_REMEDY}")
        notes.feed(data)


def _has_no_reader(writing: int) -> bool:
    poll = select.poll()
    poll.register(writing, 0)
    return bool(poll.poll(0))


def _open_fifo(path: Path, flags: int) -> int:
    try:
        handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise
        raise BackendUnavailable(f"cannot open {path}: {error}; the pod's init container makes it") from error
    if not stat.S_ISFIFO(os.fstat(handle).st_mode):
        os.close(handle)
        raise BackendUnavailable(f"{path} is no FIFO; the pod's init container makes it")
    return handle


def _is_fifo(path: Path) -> bool:
    try:
        return stat.S_ISFIFO(path.lstat().st_mode)
    except OSError:
        return False
