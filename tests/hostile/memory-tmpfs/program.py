"""Writes 256 MiB of files where 128 MiB of memory are allowed."""

from pathlib import Path

from _report import MIB, report

for written in range(256):
    Path(f"/tmp/{written}").write_bytes(b"x" * MIB)
    if written % 32 == 0:
        report(False, f"{written} MiB written to /tmp")
report(True, "256 MiB written to /tmp")
