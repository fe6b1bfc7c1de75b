"""One child process as a sandbox: three pipes, and a handle on its life.

There are no threads: `send` and `receive` wait on all of its pipes at once. A small frame costs one write; an answer
costs one poll and one read.
"""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import time
from pathlib import Path

from orchestrator.sandboxes.base import Ending, Exit
from orchestrator.sandboxes.linux import process_tree
from orchestrator.sandboxes.linux.pipe_io import CHUNK_BYTES, PipeSandbox
from orchestrator.sandboxes.process import folder_snapshot

_PIPE_BYTES = 1024 * 1024
_STDERR_BLOCK_BYTES = 64 * 1024
_GRACE_SECONDS = 1.0
_SAMPLE_SECONDS = 0.25


class ChildProcess(PipeSandbox):
    """One child in a session of its own, its three pipes, and a handle on its life (a pidfd)."""

    def __init__(self, child: subprocess.Popen[bytes], mark: str, home: Path) -> None:
        super().__init__()
        assert child.stdin is not None  # noqa: S101  they were asked for as pipes
        assert child.stdout is not None  # noqa: S101
        assert child.stderr is not None  # noqa: S101
        self._child = child
        self._mark = mark
        self._home = home
        self._stdin = child.stdin.fileno()
        self._stdout = child.stdout.fileno()
        self._stderr = child.stderr.fileno()
        self._life = os.pidfd_open(child.pid)
        self._begun = time.monotonic()
        self._dead = False  # its first process has ended
        self._quiet = False  # its stderr has ended
        self._written = self._complained = 0  # bytes through its stdout and stderr
        self._peak: int | None = None
        self._looked = 0.0
        self._ours = _peak_memory(os.getpid()) or 0
        self._exit: Exit | None = None
        self._poll = select.poll()
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe, False)
            with contextlib.suppress(OSError):  # a user's share of pipe memory may be used up; small pipes work too
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        for handle in (self._stdout, self._stderr, self._life):
            self._poll.register(handle, select.POLLIN)

    def receive(self, deadline: float) -> bytes | None:
        """Returns stdout as it comes; see `Sandbox.receive`."""
        if not self._heard(deadline):
            return None
        if self._held.size:
            self._look()
        return self._held.take()

    def stop(self) -> Exit:
        """Ends it and removes its folder; see `Sandbox.stop`."""
        if self._exit is None:
            self._exit = self._end()
        return self._exit

    @property
    def _input(self) -> int:
        return self._stdin

    @property
    def _over(self) -> bool:
        return self._dead

    def _turn(self, seconds: float, *, writing: bool = False) -> None:
        """Waits once, for at most so long, and takes what is there."""
        was_dead = self._dead
        wait = 0 if was_dead else min(seconds * 1000, 2**31 - 1)
        listening = not (self._mute or (writing and self._held.full))
        if writing:
            self._poll.register(self._stdin, select.POLLOUT)
        if not listening and not self._mute:
            self._poll.unregister(self._stdout)
        ready = dict(self._poll.poll(wait))
        if writing:
            self._poll.unregister(self._stdin)
        if not listening and not self._mute:
            self._poll.register(self._stdout, select.POLLIN)
        if self._life in ready:
            self._poll.unregister(self._life)
            self._dead = True
        if self._stderr in ready:
            self._read_stderr()
        if self._stdout in ready:
            self._read_stdout()
        elif was_dead and listening:  # what it wrote has been read; a child of its own may still hold the pipe
            self._end_stdout()

    def _read_stdout(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._stdout, CHUNK_BYTES)
            self._written += len(data)
            self._held.add(data)
            if not data:
                self._end_stdout()

    def _end_stdout(self) -> None:
        if not self._mute:
            self._poll.unregister(self._stdout)
            self._mute = True

    def _read_stderr(self) -> bool:
        """Reads what is there, once; returns whether there may be more."""
        try:
            data = os.read(self._stderr, _STDERR_BLOCK_BYTES)
        except BlockingIOError:
            return False
        self._complained += len(data)
        self._tail.add(data)
        if not (data or self._quiet):
            self._quiet = True
            self._poll.unregister(self._stderr)
        return bool(data)

    def _close_stdin(self) -> None:
        if not self._deaf:
            self._deaf = True
            assert self._child.stdin is not None  # noqa: S101
            self._child.stdin.close()

    def _look(self) -> None:
        """Notes its peak memory now and then: afterwards nobody can tell it."""
        now = time.monotonic()
        if now - self._looked >= _SAMPLE_SECONDS:
            self._looked = now
            self._peak = _peak_memory(self._child.pid) or self._peak

    def _end(self) -> Exit:
        # Without its pipes it is most likely about to end by itself, and its own exit code says more than our kill.
        itself = self._wait(_GRACE_SECONDS if self._mute or self._broken else 0)
        wall = time.monotonic() - self._begun
        self._looked = 0.0
        self._look()
        self._close_stdin()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        process_tree.kill_tagged(self._mark, self._child.pid)
        _, status, usage = os.wait4(self._child.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        code = code if code >= 0 else 128 - code
        self._child.returncode = code  # waited for here, for the sake of its usage; Popen need not do so again
        left = 64  # a pipe holds no more than 1 MiB
        while left and self._read_stderr():
            left -= 1
        self._release()
        own = Ending.CLEAN if code == 0 else Ending.CRASHED
        peak = usage.ru_maxrss * 1024
        return Exit(
            ending=own if itself else Ending.STOPPED,
            code=code if itself else None,
            wall_seconds=wall,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            # The kernel counts our own size at the fork into a child's peak, so only a larger one is the child's.
            peak_bytes=peak if peak > self._ours else self._peak,
            sampled=peak <= self._ours,
            stdin_bytes=self._sent,
            stdout_bytes=self._written,
            stderr_bytes=self._complained,
            stderr=bytes(self._tail),
        )

    def _wait(self, seconds: float) -> bool:
        """Returns whether its first process has ended, waiting for at most so long."""
        if not self._dead:
            life = select.poll()
            life.register(self._life, select.POLLIN)
            self._dead = bool(life.poll(seconds * 1000))
        return self._dead

    def _release(self) -> None:
        os.close(self._life)
        for pipe in (self._child.stdout, self._child.stderr):
            assert pipe is not None  # noqa: S101
            pipe.close()
        folder_snapshot.remove_folder(self._home)


def _peak_memory(pid: int) -> int | None:
    """Returns the most memory a process has held, in bytes; None when it has ended."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None
