"""Drivers as forks of one process that has made a driver's imports, which would take half a second for each of them."""

import ctypes
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.executors.kubernetes.pod_processes.enter import called, restrict
from tests.forkserver import CONTEXT

CLONE_NEWNS, CLONE_NEWPID, MS_REC, MS_PRIVATE, PR_SET_PDEATHSIG = 0x20000, 0x20000000, 0x4000, 0x40000, 1


class Fork:
    """A container whose first process is `python -m orchestrator ARGUMENT...`."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str], output: Path) -> None:
        self._output = output
        output.touch()
        self._process = CONTEXT.Process(target=enter, args=(arguments, environment, output), daemon=True)
        self._process.start()

    def wait(self) -> int:
        """Waits for the end; returns the exit status."""
        self._process.join()
        return self._process.exitcode or 0

    def send_signal(self, number: int) -> None:
        """Ends the container on SIGKILL, as `Tree.send_signal` does."""
        if number == signal.SIGKILL:
            self._process.kill()

    def log(self) -> bytes:
        """Returns what was written so far."""
        return self._output.read_bytes()


def enter(arguments: Sequence[str], environment: dict[str, str], output: Path) -> None:
    """Does what `unshare --pid --fork --kill-child=KILL --mount-proc` does, and then runs the program."""
    with output.open("ab") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    called("unshare", CLONE_NEWNS | CLONE_NEWPID)
    if child := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status < 0:
            os.kill(os.getpid(), -status)
        os._exit(status)
    called("prctl", PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    called("mount", "none", "/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None)
    called("mount", "proc", "/proc", "proc", 0, None)
    restrict()
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["orchestrator", *arguments]
    runpy.run_module("orchestrator", run_name="__main__", alter_sys=True)
