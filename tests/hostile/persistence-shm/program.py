"""The first leaves its token in POSIX shared memory; the second looks for it, and removes it."""

from contextlib import suppress
from pathlib import Path

from _report import ROLE, TOKEN, report

path = Path("/dev/shm", f"hostile-{TOKEN}")
if ROLE == "first":
    path.write_text(TOKEN, "ascii")
    path.chmod(0o666)
    report(False, "first wrote to /dev/shm")
else:
    found = path.exists() and path.read_text("ascii") == TOKEN
    if found:
        with suppress(PermissionError):  # where this sandbox has another user id
            path.unlink()
    report(found, f"second {'read the token' if found else 'found nothing'} in /dev/shm")
