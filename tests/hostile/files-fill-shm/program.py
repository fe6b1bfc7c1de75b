"""Writes 32 MiB into /dev/shm where 4 MiB are allowed."""

from pathlib import Path

from _report import MIB, report

written = 0
try:
    for number in range(32):
        with Path(f"/dev/shm/fill{number}").open("wb", buffering=0) as file:
            for _ in range(16):
                written += file.write(bytes(MIB // 16))
    how = "no error"
except OSError as error:
    how = error.strerror
report(written > 4 * MIB, f"{written / MIB:.1f} MiB written to /dev/shm: {how}")
