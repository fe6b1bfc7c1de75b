"""The first looks up names that do not exist; the second finds which of two sets of names the first looked up."""

import os
from pathlib import Path

from _report import ROLE, TOKEN, attempt, report, report_all

COUNT = Path("/proc/sys/fs/dentry-state")
NAMES = 400


def added(mark: str) -> int:
    """Returns how many of the names raised the count by one alone: the kernel knew them, but for this sandbox's mount.

    Others raise it at the same time; they lower it seldom.
    """
    with COUNT.open("rb", buffering=0) as file:

        def count() -> int:
            return int(os.pread(file.fileno(), 100, 0).split()[0])

        known = 0
        for number in range(NAMES):
            before = count()
            Path("/usr", f"{mark}-{number}").exists()
            known += count() - before == 1
        return known


def compare() -> str:
    """Returns how many names of each set the kernel knew. Raises OSError where they look the same."""
    stored, strange = added(TOKEN), added(f"{TOKEN}-never")
    if stored < strange + NAMES // 4:
        raise OSError(0, f"{stored} of {NAMES} stored names known, {strange} strange ones")
    return f"{stored} of {NAMES} stored names known, {strange} strange ones"


if ROLE == "first":
    for number in range(NAMES):
        Path("/usr", f"{TOKEN}-{number}").exists()
    report(False, f"{NAMES} names looked up")
else:
    report_all(attempt("second", compare))
