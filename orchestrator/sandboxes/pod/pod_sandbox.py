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
from orchestrator.sandboxes.linux.pipe_io import CHUNK_BYTES, PipeSandbox
from orchestrator.sandboxes.pod.exit_channel import ExitChannel, ExitReport
from orchestrator.sandboxes.pod.fifo_pipes import FifoPipes

_BLOCK_BYTES = 64 * 1024
_GRACE_SECONDS = 1.0
_MAX_DRAIN_READS = 64
EXIT_REPORT_SECONDS = 5.0
"""Seconds that we wait after a container ended without a word, before that is told. A node that takes a pod away as a
whole ends us within them: it gives containers 2 s or what the pod says, and the pod says 1."""
END_SECONDS = 10.0
"""Seconds that a player has to be gone once it was let go of."""


class PodSandbox(PipeSandbox):
    """The player behind five FIFOs that are open."""

    def __init__(self, pipes: FifoPipes, notes: ExitChannel) -> None:
        super().__init__()
        self._pipes, self._notes = pipes, notes
        self._begun = time.monotonic()
        self._ended: float | None = None
        self._gone = False  # its container has ended
        self._judged = False  # why its stdout has ended was looked into
        self._own: ExitReport | None = None  # what it ended with before we let go
        self._left = False  # we let go of it
        self._itself = False  # it had ended before that, or its stdout had
        self._counted = {"out": 0, "err": 0}
        self._exit: Exit | None = None
        self._poll = select.poll()
        for name in ("out", "err", "end"):
            self._poll.register(pipes[name], select.POLLIN)
        self._listening = {"out", "err", "end"}

    def receive(self, deadline: float) -> bytes | None:
        """Returns stdout as it comes; see `Sandbox.receive`. The end may take some seconds more: see the module."""
        if not self._heard(deadline):
            return None
        if not self._held.size:
            self._judge()
        return self._held.take()

    def stop(self) -> Exit:
        """Lets go of the player, which ends it and all it started, and waits until it is gone; see `Sandbox.stop`.

        Raises:
            SandboxLost: its container was still there 10 s later. It goes with the pod; a second call looks again.
        """
        if self._exit is None:
            self._let_go()
            self._exit = self._verdict()
            self._pipes.close()
        return self._exit

    @property
    def _input(self) -> int:
        return self._pipes["in"]

    @property
    def _over(self) -> bool:
        return self._gone

    def _turn(self, seconds: float, *, writing: bool = False, aside: bool = False) -> bool:
        """Waits once, for at most so long, and takes what is there; returns whether there was anything.

        With `aside`, stdout is left alone.
        """
        listening = "out" in self._listening and not aside and not (writing and self._held.full)
        if writing:
            self._poll.register(self._pipes["in"], select.POLLOUT)
        if "out" in self._listening and not listening:
            self._poll.unregister(self._pipes["out"])
        ready = dict(self._poll.poll(min(seconds * 1000, 2**31 - 1)))
        if writing:
            self._poll.unregister(self._pipes["in"])
        if "out" in self._listening and not listening:
            self._poll.register(self._pipes["out"], select.POLLIN)
        for name in ("end", "err", "out"):
            if name in self._listening and self._pipes[name] in ready:
                self._read(name)
        return bool(ready)

    def _read(self, name: str) -> None:
        """Takes what is there in a FIFO, once."""
        try:
            data = os.read(self._pipes[name], CHUNK_BYTES if name == "out" else _BLOCK_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._poll.unregister(self._pipes[name])
            self._listening.remove(name)
            self._mute = self._mute or name == "out"
            self._gone = self._gone or name == "end"
        elif name == "end":
            self._notes.feed(data)
        else:
            self._counted[name] += len(data)
            if name == "err":
                self._tail.add(data)
            elif not self._left:
                self._held.add(data)

    def _close_stdin(self) -> None:
        self._deaf = True
        self._pipes.close("in")

    def _judge(self) -> None:
        """Waits a moment for how it ended; longer where its container ended without a word, which may be the pod's."""
        self._ended = self._ended or time.monotonic()
        if self._judged:
            return
        until = time.monotonic() + _GRACE_SECONDS
        while self._notes.last is None and not self._gone and (seconds := until - time.monotonic()) > 0:
            self._turn(seconds, aside=True)
        if self._notes.last is None and self._gone:
            time.sleep(EXIT_REPORT_SECONDS)
        self._judged = True

    def _let_go(self) -> None:
        if not self._left:
            self._drain()
            if self._mute or self._broken or self._gone:
                self._judge()
            self._ended = self._ended or time.monotonic()
            self._own, self._itself = self._notes.last, self._notes.last is not None or self._gone or self._mute
            self._left = self._deaf = True
            if "out" in self._listening:
                self._poll.unregister(self._pipes["out"])
                self._listening.remove("out")
            self._pipes.close("in", "out", "ctl")
        until = time.monotonic() + END_SECONDS
        while not self._gone:
            seconds = until - time.monotonic()
            if seconds <= 0:
                raise SandboxLost(
                    f"the player's container is still there {END_SECONDS:g} s after it was let go of; delete the pod"
                )
            self._turn(seconds)
        while "err" in self._listening and select.select([self._pipes["err"]], [], [], 0)[0]:
            self._read("err")

    def _drain(self) -> None:
        """Takes what has arrived by now, for the sake of stderr and of noticing the end; drops stdout."""
        for _ in range(_MAX_DRAIN_READS):
            while self._held.take():
                pass
            if not self._turn(0.0):
                return

    def _verdict(self) -> Exit:
        last = self._notes.last
        status = None if self._own is None else self._own.status
        if last is not None and last.kills:
            ending = Ending.OUT_OF_MEMORY
        elif last is None and self._itself:
            ending = Ending.LOST
        elif self._own is None:
            ending = Ending.STOPPED
        else:
            ending = Ending.CLEAN if status == 0 else Ending.CRASHED
        return Exit(
            ending=ending,
            code=status,
            wall_seconds=(self._ended or self._begun) - self._begun,
            cpu_seconds=None if last is None else last.cpu_seconds,
            peak_bytes=None if last is None else last.peak_bytes,
            peak_pids=None if last is None else last.peak_pids,
            kills=0 if last is None else last.kills,
            stdin_bytes=self._sent,
            stdout_bytes=self._counted["out"],
            stderr_bytes=self._counted["err"],
            stderr=bytes(self._tail),
        )
