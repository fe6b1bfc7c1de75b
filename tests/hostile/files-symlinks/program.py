"""Writes through links from /tmp."""

import os
from pathlib import Path

from _report import attempt, report_all


def through(target: str) -> None:
    """Writes to a file by a symbolic link to it."""
    link = f"/tmp/link-{target.replace('/', '-')}"
    os.symlink(target, link)
    with Path(link).open("ab", buffering=0) as file:
        file.write(b"# hostile\n")


def hard() -> None:
    """Keeps a set-user-id program under a name of its own."""
    os.link("/usr/bin/su", "/tmp/su", follow_symlinks=False)


report_all(
    attempt("/etc/passwd", through, "/etc/passwd"),
    attempt("/new", through, "/sparring-new"),
    attempt("through /proc/self/root", through, "/proc/self/root/etc/group"),
    attempt("through /proc/self/cwd", through, "/proc/self/cwd/sparring-new"),
    attempt("hard link", hard),
)
