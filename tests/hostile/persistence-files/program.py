"""The first leaves its token wherever it can write; the second looks for it."""

from pathlib import Path

from _report import ROLE, TOKEN, report

FOLDERS = ("/tmp", "/dev/shm", "/var/tmp", "/run/lock", "/run", "/dev", "/opt/player", "/")

done = []
for folder in FOLDERS:
    path = Path(folder, f"left-{TOKEN}")
    try:
        if ROLE == "first":
            path.write_text(TOKEN, "ascii")
            done.append(folder)
        elif path.read_text("ascii") == TOKEN:
            done.append(folder)
    except OSError:
        continue
word = "wrote to" if ROLE == "first" else "found it in"
report(ROLE == "second" and bool(done), f"{ROLE} {word} {', '.join(done) or 'nothing'}")
