"""Starts a container of gVisor and lives as long as it: `python -I -S subreaper.py HOME PROGRAM [ARGUMENT...]`.

A container of gVisor is several processes of this machine: the one that runs the player, one that opens files for it,
and one for each address space. When the first ends, the others become children of their nearest subreaper, which has to
wait for them, or they stay in the process table. The orchestrator cannot tell them from children of its own. So this
program is that subreaper. It returns, with the exit code of PROGRAM, as soon as PROGRAM has started the container and
has ended; a child of it stays, writes its own process id to HOME/subreaper, and ends with the container's exit code, or
128 and the number of the signal that ended the container. SIGTERM to it kills the container.
"""

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress

_SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""
_REMAINDER_SECONDS = 5.0
"""How long the other processes may take to end after the first."""
_POLL_SECONDS = 0.002
_FAILED = 70


def main(arguments: list[str]) -> int:
    """Returns PROGRAM's exit code in the process that was started, the container's in the one that stays."""
    home, command = arguments[0], arguments[1:]
    ended, tell = os.pipe()
    child = os.fork()
    if not child:
        os.close(ended)
        return _stay(home, command, tell)
    os.close(tell)
    told = os.read(ended, 1)
    code = told[0] if told else _FAILED
    if code:
        os.waitpid(child, 0)
    return code


def _stay(home: str, command: list[str], tell: int) -> int:
    """Runs PROGRAM, writes its exit code to the pipe `tell`, and waits for the container; returns its exit code."""
    os.setsid()
    if ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        return _FAILED
    ignored = (signal.SIGPIPE, signal.SIGXFSZ)  # by Python, and a new program would inherit that
    code = _wait_for(os.posix_spawnp(command[0], command, os.environ, setsigdef=ignored))
    if not code:
        pid = _read_pid(home)
        _kill_when_asked(os.pidfd_open(pid))
        with open(f"{home}/subreaper", "w", encoding="ascii") as file:  # noqa: PTH123  pathlib takes longer than all else
            file.write(str(os.getpid()))
    _leave_streams()
    os.write(tell, bytes([code]))
    os.close(tell)
    if not code:
        code = _wait_for(pid)
    _wait_for_others()
    return code


def _wait_for(pid: int) -> int:
    """Returns the exit code of a child, when it has ended."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def _wait_for_others() -> None:
    """Waits until there are no more children, for some seconds at most."""
    until = time.monotonic() + _REMAINDER_SECONDS
    with suppress(ChildProcessError):  # none is left
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(_POLL_SECONDS)


def _kill_when_asked(handle: int) -> None:
    """Kills a process at each SIGTERM to this one, if it still lives."""

    def kill(*_: object) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)

    signal.signal(signal.SIGTERM, kill)


def _read_pid(home: str) -> int:
    with open(f"{home}/pid", encoding="ascii") as file:  # noqa: PTH123  pathlib takes longer than all else
        return int(file.read())


def _leave_streams() -> None:
    """Lets go of the player's standard streams, which this process inherited: their ends are to be the player's."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
