"""One container as a sandbox: its three pipes, its first process, and its control group."""

import ctypes
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.base import Ending, Exit
from orchestrator.sandboxes.linux.parent_cgroup import ParentCgroup
from orchestrator.sandboxes.linux.process_pipes import ProcessPipes, StandardPipes
from orchestrator.sandboxes.pending_cleanup import PendingCleanup, StopOnce
from orchestrator.sandboxes.runc.runtime import StartedContainer
from orchestrator.sandboxes.runc.thrashing import SAMPLE_SECONDS, ThrashingDetector

_GRACE_SECONDS = 2.0
_KILL_SECONDS = 10.0
_SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""


@cache
def become_subreaper() -> None:
    """Makes this process the parent of its orphaned descendants, such as a container's first process after runc exited.

    The kernel reports how a process ended only to its parent. Raises SandboxLost if the kernel refuses.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise SandboxLost(f"this process cannot become a subreaper: {os.strerror(ctypes.get_errno())}")


class RuncContainer(ProcessPipes):
    """One running container.

    Args:
        container: its name.
        started: its processes.
        pipes: its three pipes.
        cgroup: the parent of its control group.
        release: called once, after all its processes have ended.
        pending: stops the sandbox later if `stop` failed.
    """

    def __init__(
        self,
        container: str,
        started: StartedContainer,
        pipes: StandardPipes,
        cgroup: ParentCgroup,
        release: Callable[[], None],
        pending: PendingCleanup,
    ) -> None:
        super().__init__(pipes, os.pidfd_open(started.child))
        self._container, self._started, self._cgroup = container, started, cgroup
        self._release, self._stop = release, StopOnce(self._end, pending)
        self._started_at = time.monotonic()
        self._ended_at: float | None = None
        self._ended_itself: bool | None = None  # whether the player exited by itself; None until `stop` checks
        self._status: int | None = None  # exit code or minus the signal, after the process was waited for
        self._memory = ThrashingDetector(cgroup.file_cache)
        self._is_starved = False  # whether we killed it because it was thrashing

    def stop(self) -> Exit:
        """Kills the container and removes what it used; see `Sandbox.stop`.

        Raises:
            SandboxLost: a process of it survived. A second call tries again.
        """
        return self._stop()

    def _sample(self) -> None:
        """Does nothing: the parent control group keeps the counters."""

    def _wait_once(self, seconds: float, *, writing: bool = False) -> None:
        """Polls once, for at most `SAMPLE_SECONDS`; kills a player that is thrashing."""
        super()._wait_once(min(seconds, SAMPLE_SECONDS), writing=writing)
        self._end_if_starved()

    def _end_if_starved(self) -> None:
        if not self._ended and self._memory.is_thrashing():
            self._is_starved = True
            self._kill()

    def _wait_for_end(self, seconds: float) -> bool:
        """Waits until the first process has ended, for at most `seconds`; returns whether it has."""
        until = time.monotonic() + seconds
        while not self._wait_for_exit(max(0.0, min(SAMPLE_SECONDS, until - time.monotonic()))):
            if time.monotonic() >= until:
                return False
            self._end_if_starved()
        return True

    def _end(self) -> Exit:
        if self._ended_itself is None:
            # A player that closed its pipes is probably exiting, and its own exit code is more useful than our kill.
            self._ended_itself = self._wait_for_end(_GRACE_SECONDS if self._stdout_ended or self._stdin_broken else 0)
            self._ended_at = time.monotonic()
        self._close_stdin()
        if self._status is None:
            self._status = self._kill_and_wait()
        usage = self._cgroup.usage()
        self._cgroup.close()  # the end of the first process kills all others soon; this kills them now
        self._close_pipes()
        self._release()
        code = self._status if self._status >= 0 else 128 - self._status
        kills = 0 if usage is None else usage.kills
        if kills or self._is_starved:
            ending = Ending.OUT_OF_MEMORY
        elif not self._ended_itself:
            ending = Ending.STOPPED
        else:
            ending = Ending.CLEAN if code == 0 else Ending.CRASHED
        return Exit(
            ending=ending,
            code=code if self._ended_itself else None,
            wall_seconds=(self._ended_at or self._started_at) - self._started_at,
            cpu_seconds=None if usage is None else usage.cpu_seconds,
            peak_bytes=None if usage is None else usage.peak_bytes,
            peak_pids=None if usage is None else usage.peak_pids,
            kills=kills,
            stdin_bytes=self._stdin_bytes,
            stdout_bytes=self._stdout_bytes,
            stderr_bytes=self._stderr_bytes,
            stderr=bytes(self._stderr_tail),
        )

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, self._started.kill_signal)

    def _kill_and_wait(self) -> int:
        """Kills the first process, and thereby all others; returns its exit code, or minus the signal that ended it."""
        if not self._ended:
            self._kill()
            if not self._wait_for_exit(_KILL_SECONDS):
                raise SandboxLost(
                    f"process {self._started.pid} of container {self._container} survives SIGKILL; end it by hand"
                )
        # Not waitpid: it would also report that a traced process stopped, which is not its end.
        try:
            result = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        except ChildProcessError as error:
            raise SandboxLost(
                f"the kernel does not say how container {self._container} ended; start this program with the signal "
                "SIGCHLD at its default, not ignored"
            ) from error
        assert result is not None  # noqa: S101  None is returned only with WNOHANG
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def kill_container(started: StartedContainer) -> None:
    """Kills a container that was just started, and waits for `started.child`."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(started.child, started.kill_signal)
        os.waitid(os.P_PID, started.child, os.WEXITED)
