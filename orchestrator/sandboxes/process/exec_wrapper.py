"""Sets limits and executes the player: `python -I -S exec_wrapper.py DATA FILES BYTES PROGRAM [ARGUMENT...]`.

This is a separate program, because code between fork and exec is unsafe in a process with threads. DATA is RLIMIT_DATA
in bytes (RLIMIT_AS would also count memory that torch only reserves), FILES the number of open files, BYTES the size of
one file. If PROGRAM cannot be started, it exits with code 127 (not found) or 126 and the reason on stderr, as a shell
does.
"""

import os
import resource
import signal
import sys

_LONGEST_FIRST_LINE = 256
"""Bytes of a script in which the kernel looks for the name of its interpreter."""


def main(arguments: list[str]) -> int:
    """Executes the program; returns an exit code only if it could not be started."""
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
    """Returns what a program that exists lacks to be started, "" if the program does not exist.

    The kernel reports the same error for a missing program and a missing interpreter.
    """
    for folder in [""] if "/" in program else os.get_exec_path():
        path = os.path.join(folder, program)  # noqa: PTH118  pathlib alone takes longer than this program
        if not os.path.isfile(path):  # noqa: PTH113  as above
            continue
        with open(path, "rb") as file:  # noqa: PTH123  as above
            head = file.readline(_LONGEST_FIRST_LINE).rstrip(b"\n")
        if not head.startswith(b"#!"):
            return "the loader that it names is not there: it is made for another system"
        arguments = head[2:].replace(b"\t", b" ").split(b" ")
        return f"its interpreter {next(filter(None, arguments), b'').decode(errors='replace')!a} is not there"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
