"""One child process as a sandbox."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from orchestrator.sandboxes.base import Ending, Exit
from orchestrator.sandboxes.linux import process_tree
from orchestrator.sandboxes.linux.process_pipes import ProcessPipes, StandardPipes
from orchestrator.sandboxes.process import folder_snapshot

_GRACE_SECONDS = 1.0
_SAMPLE_SECONDS = 0.25


class ChildProcess(ProcessPipes):
    """One child process in a session of its own."""

    def __init__(self, child: subprocess.Popen[bytes], pipes: StandardPipes, tag: str, home: Path) -> None:
        super().__init__(pipes, os.pidfd_open(child.pid))
        self._child = child
        self._tag = tag
        self._home = home
        self._started_at = time.monotonic()
        self._sampled_peak: int | None = None
        self._sampled_at = 0.0
        self._own_peak = _peak_memory(os.getpid()) or 0
        self._exit: Exit | None = None

    def stop(self) -> Exit:
        """Kills the player and removes its folder; see `Sandbox.stop`."""
        if self._exit is None:
            self._exit = self._end_process()
        return self._exit

    def _sample(self) -> None:
        """Samples the peak memory at most every `_SAMPLE_SECONDS`, because it cannot be read after the end."""
        now = time.monotonic()
        if now - self._sampled_at >= _SAMPLE_SECONDS:
            self._sampled_at = now
            self._sampled_peak = _peak_memory(self._child.pid) or self._sampled_peak

    def _end_process(self) -> Exit:
        # A player that closed its pipes is probably exiting, and its own exit code is more useful than our kill.
        ended_itself = self._wait_for_exit(_GRACE_SECONDS if self._stdout_ended or self._stdin_broken else 0)
        wall = time.monotonic() - self._started_at
        self._sampled_at = 0.0
        self._sample()
        self._close_stdin()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        process_tree.kill_tagged(self._tag, self._child.pid)
        _, status, usage = os.wait4(self._child.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        code = code if code >= 0 else 128 - code
        self._child.returncode = code  # wait4 reaped it and returned its usage; Popen must not wait again
        self._close_pipes()
        folder_snapshot.remove_folder(self._home)
        ending = Ending.CLEAN if code == 0 else Ending.CRASHED
        peak = usage.ru_maxrss * 1024
        return Exit(
            ending=ending if ended_itself else Ending.STOPPED,
            code=code if ended_itself else None,
            wall_seconds=wall,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            # The kernel includes this process's size at the fork in a child's peak, so only a larger peak is its own.
            peak_bytes=peak if peak > self._own_peak else self._sampled_peak,
            sampled=peak <= self._own_peak,
            stdin_bytes=self._stdin_bytes,
            stdout_bytes=self._stdout_bytes,
            stderr_bytes=self._stderr_bytes,
            stderr=bytes(self._stderr_tail),
        )


def _peak_memory(pid: int) -> int | None:
    """Returns a process's peak resident memory in bytes; None if the process has ended."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None
