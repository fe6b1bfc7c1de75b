"""Becomes the player: `python -I -S _launch.py DATA FILES BYTES PROGRAM [ARGUMENT...]`.

A program of its own, because code between fork and exec is unsafe in a process with threads. It bounds itself and then
is replaced by the player, so nothing of it remains: DATA is RLIMIT_DATA in bytes (RLIMIT_AS would also count what
torch only reserves), FILES the open files, BYTES the size of one file. A program that cannot be started is exit code
127 (not found) or 126, with the reason on stderr, as a shell does it.
"""

import os
import resource
import signal
import sys


def main(arguments: list[str]) -> int:
    """Returns only when the program could not be started."""
    data, files, size = (int(value) for value in arguments[:3])
    command = arguments[3:]
    for kind, maximum in (
        (resource.RLIMIT_DATA, data),
        (resource.RLIMIT_NOFILE, files),
        (resource.RLIMIT_FSIZE, size),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        allowed = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
        resource.setrlimit(kind, (allowed, allowed))
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores both, and a new program would inherit that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606  a list of arguments; there is no shell to fool
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]!a}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
