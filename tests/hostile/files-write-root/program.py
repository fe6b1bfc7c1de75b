"""Tries to write in every folder of the root."""

from pathlib import Path

from _report import attempt, report_all


def write(folder: str) -> None:
    """Leaves a file there."""
    Path(folder, "sparring-hostile").write_bytes(bytes(4096))


FOLDERS = ("/", "/etc", "/usr/bin", "/usr/lib", "/var/tmp", "/var/lib", "/root", "/home", "/opt", "/run", "/srv")
report_all(*(attempt(folder, write, folder) for folder in FOLDERS))
