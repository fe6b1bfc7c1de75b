"""What every hostile program shares: how it reports, and system calls by their number.

It is put before each program's source, so the names here are there without an import; an import of them works too.
"""

import ctypes
import errno
import json
import os
import sys

ROLE = sys.argv[1] if len(sys.argv) > 1 else "only"
TOKEN = sys.argv[2] if len(sys.argv) > 2 else "none-0"
PORT = int(TOKEN.rpartition("-")[2])
"""Where the host's services listen on 127.0.0.1; the whole token is their abstract name."""
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
MIB = 1024 * 1024

# A sandbox is read back after its start; what a program changes before that would be noticed there already.
os.read(0, 1)


def report(harm: bool, evidence: str) -> None:
    """Prints one line; the last one counts."""
    line = json.dumps({"harm": harm, "evidence": evidence}) + "\n"
    os.write(1, line.encode())


def syscall(number: int, *arguments: object) -> int:
    """Makes a system call (x86_64 numbers) and returns what it returned. Raises OSError."""
    made = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    done = LIBC.syscall(ctypes.c_long(number), *made)
    if done == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return done


def name(error: OSError) -> str:
    """Returns an error as EPERM or ENOSYS."""
    return errno.errorcode.get(error.errno or 0, error.strerror or str(error))


def attempt(what: str, action: object, *arguments: object) -> tuple[bool, str]:
    """Calls `action(*arguments)`; returns whether it worked, and a line of evidence."""
    try:
        found = action(*arguments)
    except OSError as error:
        return False, f"{what}: {name(error)}"
    return True, f"{what}: done" if found is None else f"{what}: {found!r}"[:120]


def report_all(*attempts: tuple[bool, str]) -> None:
    """Reports harm if any attempt worked, with the evidence of all, what worked first."""
    ordered = sorted(attempts, key=lambda each: not each[0])
    report(ordered[0][0], "; ".join(said for _, said in ordered))
