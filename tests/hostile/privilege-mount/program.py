"""Tries every way to change what is mounted."""

import os

from _report import attempt, report_all, syscall

MOUNT, OPEN_TREE, FSOPEN = 165, 428, 430
MS_BIND, MS_REMOUNT = 4096, 32


def mount(kind: bytes, at: bytes, flags: int) -> None:
    """Mounts something of that kind there."""
    syscall(MOUNT, kind, at, kind, flags, None)


os.mkdir("/tmp/m")
report_all(
    attempt("tmpfs", mount, b"tmpfs", b"/tmp/m", 0),
    attempt("proc", mount, b"proc", b"/tmp/m", 0),
    attempt("bind of /etc", mount, b"/etc", b"/tmp/m", MS_BIND),
    attempt("writable root", mount, b"none", b"/", MS_REMOUNT),
    attempt("open_tree", lambda: os.close(syscall(OPEN_TREE, -100, b"/", 1))),
    attempt("fsopen", lambda: os.close(syscall(FSOPEN, b"tmpfs", 0))),
)
