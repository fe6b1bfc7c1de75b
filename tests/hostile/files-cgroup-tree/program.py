"""Looks for the host's names of control groups."""

from pathlib import Path

from _report import report

places = {line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text("ascii").splitlines()}
report(bool(places - {"/"}), f"places: {', '.join(sorted(places))}"[:160])
