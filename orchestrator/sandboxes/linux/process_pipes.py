"""A process that is connected through three pipes, and a pidfd that signals its end.

There are no threads: `send` and `receive` poll all pipes at once. A small frame costs one write; an answer costs one
poll and one read.
"""

import contextlib
import fcntl
import os
import select
from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

from orchestrator.sandboxes.linux.pipe_io import PipeSandbox

_PIPE_BYTES = 1024 * 1024
_STDERR_BLOCK_BYTES = 64 * 1024
_MAX_STDERR_READS = 64
"""Reads that empty stderr: a pipe holds no more than 1 MiB."""


@dataclass(frozen=True, slots=True)
class StandardPipes:
    """Three pipes: the orchestrator's ends, and those that become stdin, stdout and stderr of a process."""

    ours: tuple[int, int, int]
    theirs: tuple[int, int, int]

    @classmethod
    def open(cls) -> Self:
        """Opens the pipes; `ours` do not block. Raises OSError, with none left open."""
        with contextlib.ExitStack() as opened:
            pairs = []
            for _ in range(3):
                pairs.append(os.pipe())
                for handle in pairs[-1]:
                    opened.callback(os.close, handle)
            (their_stdin, stdin), (stdout, their_stdout), (stderr, their_stderr) = pairs
            for handle in (stdin, stdout, stderr):
                os.set_blocking(handle, False)
                with contextlib.suppress(OSError):  # at the user's limit of pipe memory; small pipes work too
                    fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            opened.pop_all()
            return cls((stdin, stdout, stderr), (their_stdin, their_stdout, their_stderr))

    def close_ours(self) -> None:
        """Closes our ends, if no sandbox takes them over."""
        for handle in self.ours:
            os.close(handle)

    def close_theirs(self) -> None:
        """Closes the other ends, after a process inherited them or failed to start."""
        for handle in self.theirs:
            os.close(handle)


class ProcessPipes(PipeSandbox):
    """A process, its pipes and its pidfd; `_close_pipes` closes our ends of the pipes and the pidfd."""

    def __init__(self, pipes: StandardPipes, pidfd: int) -> None:
        super().__init__()
        self._stdin, self._stdout, self._stderr = pipes.ours
        self._pidfd = pidfd
        self._ended = False  # the player's first process has ended
        self._stderr_ended = False
        self._stdout_bytes = self._stderr_bytes = 0  # bytes read so far
        for handle in (self._stdout, self._stderr, self._pidfd):
            self._poller.register(handle, select.POLLIN)

    def receive(self, deadline: float) -> bytes | None:
        """Returns stdout as it comes; see `Sandbox.receive`."""
        if not self._wait_for_stdout(deadline):
            return None
        if self._buffer.size:
            self._sample()
        return self._buffer.take()

    @abstractmethod
    def _sample(self) -> None:
        """Samples the player's resource usage, if it cannot be measured after its end."""

    @property
    def _stdin_handle(self) -> int:
        return self._stdin

    @property
    def _player_ended(self) -> bool:
        return self._ended

    def _wait_once(self, seconds: float, *, writing: bool = False) -> None:
        """Polls once, for at most `seconds`, and reads what arrived."""
        was_dead = self._ended
        paused = not self._stdout_ended and writing and self._buffer.is_full
        ready = self._poll(0 if was_dead else seconds, writing=writing, paused=self._stdout if paused else None)
        if self._pidfd in ready:
            self._poller.unregister(self._pidfd)
            self._ended = True
        if self._stderr in ready:
            self._read_stderr()
        if self._stdout in ready:
            self._read_stdout()
        elif (
            was_dead and not paused
        ):  # all output has been read, but a child of the player may still hold the pipe open
            self._end_stdout()

    def _read_stdout(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = self._read_chunk(self._stdout)
            self._stdout_bytes += len(data)
            self._buffer.add(data)
            if not data:
                self._end_stdout()

    def _end_stdout(self) -> None:
        if not self._stdout_ended:
            self._poller.unregister(self._stdout)
            self._stdout_ended = True

    def _read_stderr(self) -> bool:
        """Reads stderr once, without waiting; returns whether there may be more."""
        try:
            data = os.read(self._stderr, _STDERR_BLOCK_BYTES)
        except BlockingIOError:
            return False
        self._stderr_bytes += len(data)
        self._stderr_tail.add(data)
        if not (data or self._stderr_ended):
            self._stderr_ended = True
            self._poller.unregister(self._stderr)
        return bool(data)

    def _close_stdin(self) -> None:
        if not self._stdin_closed:
            self._stdin_closed = True
            os.close(self._stdin)

    def _wait_for_exit(self, seconds: float) -> bool:
        """Waits until the player's first process has ended, for at most `seconds`; returns whether it has."""
        if not self._ended:
            exit_poll = select.poll()
            exit_poll.register(self._pidfd, select.POLLIN)
            self._ended = bool(exit_poll.poll(seconds * 1000))
        return self._ended

    def _close_pipes(self) -> None:
        """Reads the rest of stderr, and closes the pipes and the pidfd."""
        reads_left = _MAX_STDERR_READS
        while reads_left and self._read_stderr():
            reads_left -= 1
        self._close_stdin()
        for handle in (self._pidfd, self._stdout, self._stderr):
            os.close(handle)
