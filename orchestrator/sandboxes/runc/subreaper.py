"""Starts a gVisor container and waits until it ends: `python -I -S subreaper.py HOME PROGRAM [ARGUMENT...]`.

A gVisor container is several processes of this machine: the one that runs the player, one that opens files for it, and
one for each address space. When the first ends, the others become children of their nearest subreaper, which has to
wait for them, or they stay in the process table. The orchestrator could not distinguish them from its own children. So
this program is that subreaper. It exits with the exit code of PROGRAM, as soon as PROGRAM has started the container and
has exited. A child process of it goes on: it writes its process id to HOME/subreaper, and exits with the container's
exit code, or 128 plus the number of the signal that ended the container. SIGTERM to the child kills the container.
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
"""Seconds that the other processes may take to end after the first."""
_POLL_SECONDS = 0.002
_FAILED = 70


def main(arguments: list[str]) -> int:
    """Returns PROGRAM's exit code in the process that was started, the container's in its child."""
    home, command = arguments[0], arguments[1:]
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        return _supervise(home, command, writer)
    os.close(writer)
    report = os.read(reader, 1)
    code = report[0] if report else _FAILED
    if code:
        os.waitpid(child, 0)
    return code


def _supervise(home: str, command: list[str], writer: int) -> int:
    """Runs PROGRAM, writes its exit code to the pipe `writer`, and waits for the container; returns its exit code."""
    os.setsid()
    if ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        return _FAILED
    ignored = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores these, and a new program would inherit that
    code = _wait_for(os.posix_spawnp(command[0], command, os.environ, setsigdef=ignored))
    if not code:
        pid = _read_pid(home)
        _kill_on_sigterm(os.pidfd_open(pid))
        with open(f"{home}/subreaper", "w", encoding="ascii") as file:  # noqa: PTH123  pathlib takes longer than all else
            file.write(str(os.getpid()))
    _close_streams()
    os.write(writer, bytes([code]))
    os.close(writer)
    if not code:
        code = _wait_for(pid)
    _wait_for_others()
    return code


def _wait_for(pid: int) -> int:
    """Waits for a child and returns its exit code."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def _wait_for_others() -> None:
    """Waits until there are no more children, for at most `_REMAINDER_SECONDS`."""
    until = time.monotonic() + _REMAINDER_SECONDS
    with suppress(ChildProcessError):  # none is left
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(_POLL_SECONDS)


def _kill_on_sigterm(pidfd: int) -> None:
    """Installs a handler that kills a process, if it still runs, at each SIGTERM to this one."""

    def kill(*_: object) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    signal.signal(signal.SIGTERM, kill)


def _read_pid(home: str) -> int:
    with open(f"{home}/pid", encoding="ascii") as file:  # noqa: PTH123  pathlib takes longer than all else
        return int(file.read())


def _close_streams() -> None:
    """Closes the inherited standard streams, which must end when the player closes them."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
