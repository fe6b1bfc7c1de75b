"""A round's wall time against its players' own compute, as ratios of one run.

    python bench/round.py [--backend process|docker] [--slots 2] [--json]

Plays the demo's contest and prints:

    overhead    wall time x slots / processor seconds that the players used, loading included; 1.0 is perfect
    own share   processor seconds of the orchestrator / processor seconds of the players
    work share  seconds between question and last reply / processor seconds of the players

The figures are ratios of one run on one machine; absolute seconds are shown to read them by.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from orchestrator import logs, shipped
from orchestrator.intake.contest_file import Contest
from orchestrator.wiring import rounds


def measure(backend: str, slots: int) -> dict[str, float | str | int]:
    """Plays the demo once and returns the figures."""
    contest = Contest(shipped.path("examples", "demo", "contest.yaml"))
    how = rounds.How(backend=backend, slots=slots, allow_unisolated=True)
    with tempfile.TemporaryDirectory(prefix="sparring-bench-") as folder:
        before = resource.getrusage(resource.RUSAGE_SELF)
        began = time.perf_counter()
        results = rounds.play(contest, Path(folder) / "out", how, lambda _: None).results
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_SELF)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    players = sum(part.cpu_seconds or 0.0 for part in results.submissions)
    work = sum(part.seconds for part in results.submissions)
    questions = sum(cell.total - cell.forfeits for cell in results.cells)
    return {
        "backend": backend,
        "slots": slots,
        "sandboxes": sum(part.sandboxes for part in results.submissions),
        "questions": questions,
        "wall_seconds": round(wall, 2),
        "players_cpu_seconds": round(players, 2),
        "overhead": round(wall * slots / players, 3),
        "own_share": round(own / players, 3),
        "work_share": round(work / players, 3),
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="A round's wall time against its players' own compute.")
    parser.add_argument("--backend", default="process")
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    logs.configure(quiet=True)
    figures = measure(asked.backend, asked.slots)
    if asked.json:
        json.dump(figures, sys.stdout, indent=2)
        print()
        return
    for name, value in figures.items():
        print(f"{name:20} {value}")


if __name__ == "__main__":
    main()
