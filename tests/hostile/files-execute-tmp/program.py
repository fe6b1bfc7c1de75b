"""Copies a program to /tmp and starts it."""

import mmap
import os
import shutil
import subprocess

from _report import attempt, report_all


def execute() -> str:
    """Returns what the copy says."""
    shutil.copy("/bin/echo", "/tmp/echo")
    os.chmod("/tmp/echo", 0o755)
    return subprocess.run(["/tmp/echo", "ran"], capture_output=True, check=True, text=True).stdout.strip()


def as_code() -> None:
    """Maps a file of /tmp as code, as the loader does with a library."""
    with open("/tmp/echo", "rb") as file:
        mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()


report_all(attempt("executing", execute), attempt("mapping as code", as_code))
