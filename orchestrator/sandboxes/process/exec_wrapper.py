"""Becomes the player: `python -I -S exec_wrapper.py DATA FILES BYTES PROGRAM [ARGUMENT...]`.

A program of its own, because code between fork and exec is unsafe in a process with threads. It bounds itself and then
is replaced by the player, so nothing of it remains: DATA is RLIMIT_DATA in bytes (RLIMIT_AS would also count what
torch only reserves), FILES the open files, BYTES the size of one file. A program that cannot be started is exit code
127 (not found) or 126, with the reason on stderr, as a shell does it.
"""

import os
import resource
import signal
import sys

_LONGEST_FIRST_LINE = 256
"""Bytes that the kernel reads of a script for the name of its interpreter."""


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
        is_missing = isinstance(error, FileNotFoundError)
        reason = (is_missing and what_is_missing(command[0])) or error.strerror
        sys.stderr.write(f"cannot start {command[0]!a}: {reason}\n")
        return 127 if is_missing else 126


def what_is_missing(program: str) -> str:
    """Returns what keeps a program from being started that is there itself, "" where there is none.

    To the kernel it is the same whether a file is missing or what would run it.
    """
    for folder in [""] if "/" in program else os.get_exec_path():
        path = os.path.join(folder, program)  # noqa: PTH118  pathlib alone takes longer than this program
        if not os.path.isfile(path):  # noqa: PTH113  as above
            continue
        with open(path, "rb") as file:  # noqa: PTH123  as above
            head = file.readline(_LONGEST_FIRST_LINE).rstrip(b"\n")
        if not head.startswith(b"#!"):
            return "the loader that it names is not there: it is made for another system"
        words = head[2:].replace(b"\t", b" ").split(b" ")
        return f"its interpreter {next(filter(None, words), b'').decode(errors='replace')!a} is not there"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
