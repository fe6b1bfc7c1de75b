"""The player of a pod as a sandbox: five FIFOs, no thread, no process of ours.

There are no threads: `send` and `receive` wait on all FIFOs at once, as in `_child`. An end of stdout is the player's
doing where our shell in its container told how it ended. Where that shell never said anything, its whole container was
ended from outside: by the kernel at its memory limit, or by somebody on the node. Which is not to be seen from here:
such an end is `LOST`, and the controller reads from the pod's status whose doing it was (see
`executors.kubernetes.oom_correction`).
"""

import os
import select
import time

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.base import Ending, Exit
from orchestrator.sandboxes.linux.pipe_io import PipeSandbox
from orchestrator.sandboxes.pod.exit_channel import ExitChannel, ExitReport
from orchestrator.sandboxes.pod.fifo_pipes import FifoPipes

_BLOCK_BYTES = 64 * 1024
_GRACE_SECONDS = 1.0
_MAX_DRAIN_READS = 64
EXIT_REPORT_SECONDS = 5.0
"""Seconds that we wait after a container ended without a message, before we report that. A node that removes a
whole pod ends us within this time: it gives containers 2 s or what the pod says, and the pod says 1."""
END_SECONDS = 10.0
"""Seconds within which a player's container has to end after the player was told to end."""


class PodSandbox(PipeSandbox):
    """The player behind five FIFOs that are open."""

    def __init__(self, pipes: FifoPipes, channel: ExitChannel) -> None:
        super().__init__()
        self._pipes, self._channel = pipes, channel
        self._started_at = time.monotonic()
        self._ended_at: float | None = None
        self._container_ended = False  # its container has ended
        self._end_examined = False  # why its stdout has ended was looked into
        self._exit_before_release: ExitReport | None = None  # what it ended with before we let go
        self._released = False  # we let go of it
        self._ended_itself = False  # it had ended before that, or its stdout had
        self._byte_counts = {"out": 0, "err": 0}
        self._exit: Exit | None = None
        for name in ("out", "err", "end"):
            self._poller.register(pipes[name], select.POLLIN)
        self._open_fifos = {"out", "err", "end"}

    def receive(self, deadline: float) -> bytes | None:
        """Returns stdout as it comes; see `Sandbox.receive`. The end may take some seconds more: see the module."""
        if not self._wait_for_stdout(deadline):
            return None
        if not self._buffer.size:
            self._await_exit_report()
        return self._buffer.take()

    def stop(self) -> Exit:
        """Lets go of the player, which ends it and all it started, and waits until it is gone; see `Sandbox.stop`.

        Raises:
            SandboxLost: its container was still there 10 s later. It goes with the pod; a second call looks again.
        """
        if self._exit is None:
            self._release()
            self._exit = self._exit_from_report()
            self._pipes.close()
        return self._exit

    @property
    def _stdin_handle(self) -> int:
        return self._pipes["in"]

    @property
    def _player_ended(self) -> bool:
        return self._container_ended

    def _wait_once(self, seconds: float, *, writing: bool = False, aside: bool = False) -> bool:
        """Waits once, for at most so long, and takes what is there; returns whether there was anything.

        With `aside`, stdout is left alone.
        """
        paused = "out" in self._open_fifos and (aside or (writing and self._buffer.is_full))
        ready = self._poll(seconds, writing=writing, paused=self._pipes["out"] if paused else None)
        for name in ("end", "err", "out"):
            if name in self._open_fifos and self._pipes[name] in ready:
                self._read(name)
        return bool(ready)

    def _read(self, name: str) -> None:
        """Takes what is there in a FIFO, once."""
        try:
            pipe = self._pipes[name]
            data = self._read_chunk(pipe) if name == "out" else os.read(pipe, _BLOCK_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._poller.unregister(self._pipes[name])
            self._open_fifos.remove(name)
            self._stdout_ended = self._stdout_ended or name == "out"
            self._container_ended = self._container_ended or name == "end"
        elif name == "end":
            self._channel.feed(data)
        else:
            self._byte_counts[name] += len(data)
            if name == "err":
                self._stderr_tail.add(data)
            elif not self._released:
                self._buffer.add(data)

    def _close_stdin(self) -> None:
        self._stdin_closed = True
        self._pipes.close("in")

    def _await_exit_report(self) -> None:
        """Waits a moment for how it ended; longer where its container ended without a word, which may be the pod's."""
        self._ended_at = self._ended_at or time.monotonic()
        if self._end_examined:
            return
        until = time.monotonic() + _GRACE_SECONDS
        while (
            self._channel.exit_report is None
            and not self._container_ended
            and (seconds := until - time.monotonic()) > 0
        ):
            self._wait_once(seconds, aside=True)
        if self._channel.exit_report is None and self._container_ended:
            time.sleep(EXIT_REPORT_SECONDS)
        self._end_examined = True

    def _release(self) -> None:
        if not self._released:
            self._drain()
            if self._stdout_ended or self._stdin_broken or self._container_ended:
                self._await_exit_report()
            self._ended_at = self._ended_at or time.monotonic()
            self._exit_before_release, self._ended_itself = (
                self._channel.exit_report,
                self._channel.exit_report is not None or self._container_ended or self._stdout_ended,
            )
            self._released = self._stdin_closed = True
            if "out" in self._open_fifos:
                self._poller.unregister(self._pipes["out"])
                self._open_fifos.remove("out")
            self._pipes.close("in", "out", "ctl")
        until = time.monotonic() + END_SECONDS
        while not self._container_ended:
            seconds = until - time.monotonic()
            if seconds <= 0:
                raise SandboxLost(
                    f"the player's container still runs {END_SECONDS:g} s after its player was told to end; "
                    "delete the pod"
                )
            self._wait_once(seconds)
        while "err" in self._open_fifos and select.select([self._pipes["err"]], [], [], 0)[0]:
            self._read("err")

    def _drain(self) -> None:
        """Takes what has arrived by now, for the sake of stderr and of noticing the end; drops stdout."""
        for _ in range(_MAX_DRAIN_READS):
            while self._buffer.take():
                pass
            if not self._wait_once(0.0):
                return

    def _exit_from_report(self) -> Exit:
        last = self._channel.exit_report
        status = None if self._exit_before_release is None else self._exit_before_release.status
        if last is not None and last.kills:
            ending = Ending.OUT_OF_MEMORY
        elif last is None and self._ended_itself:
            ending = Ending.LOST
        elif self._exit_before_release is None:
            ending = Ending.STOPPED
        else:
            ending = Ending.CLEAN if status == 0 else Ending.CRASHED
        return Exit(
            ending=ending,
            code=status,
            wall_seconds=(self._ended_at or self._started_at) - self._started_at,
            cpu_seconds=None if last is None else last.cpu_seconds,
            peak_bytes=None if last is None else last.peak_bytes,
            peak_pids=None if last is None else last.peak_pids,
            kills=0 if last is None else last.kills,
            stdin_bytes=self._stdin_bytes,
            stdout_bytes=self._byte_counts["out"],
            stderr_bytes=self._byte_counts["err"],
            stderr=bytes(self._stderr_tail),
        )
