"""Measures the orchestrator's time for each question of a round, and how it grows with the number of pictures.

    python bench/questions.py [--rounds 20x20x100,2x2x10000,2x2x100000] [--slots 1] [--json]

A round is ATTACKSxDEFENCESxPICTURES on the process backend, with isolation `round`, one picture in a question and no
replays. Its pictures have 1 x 8 x 8 pixels. Its players answer at once, without NumPy (those of `bench/wire.py`), so
nearly all of the time is the orchestrator's and the kernel's. For each round it prints:

    own us       processor time of the orchestrator for each question, in microseconds
    overhead us  (wall time x slots - processor time of the players) for each question; includes waiting
    growth       overhead us divided by that of the smallest round with as many players; 1.0 is linear

The goals are an overhead of 150 us in 20x20x100, and a growth of about 1. With more than one slot the overhead includes
waiting for another slot's thread. Each round is played in a process of its own, so that its peak of memory is its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.wire import PLAYER
from orchestrator import logs
from orchestrator.application.rounds import play_rounds
from orchestrator.intake.contest_file import Contest

SIDE, CLASSES, BATCH = 8, 10, 50
ROUNDS = "20x20x100,2x2x10000,2x2x100000"
COLUMNS = ("round", "questions", "wall s", "own us", "overhead us", "growth", "peak MB")


def write_player(folder: Path, name: str, side: str, pictures: int) -> dict[str, Any]:
    """Writes a player that answers questions of `pictures` pictures; returns its entry in the contest file."""
    place = folder / name
    place.mkdir()
    (place / "player.py").write_text(PLAYER)
    command = ["python", "player.py", str(pictures)]
    (place / "submission.yaml").write_text(json.dumps({"sparring": 1, "name": name, "side": side, "command": command}))
    return {"folder": str(place), "team": name}


def write_contest(folder: Path, attacks: int, defences: int, pictures: int) -> Path:
    """Writes a contest with its pictures and its players; returns the path of its file."""
    chance = np.random.default_rng(1)
    images = chance.integers(0, 256, (pictures, SIDE, SIDE), dtype=np.uint8)
    np.savez(folder / "pictures.npz", images=images, labels=np.arange(pictures) % CLASSES)
    submissions = [write_player(folder, f"attack{number}", "attack", BATCH) for number in range(attacks)]
    submissions += [write_player(folder, f"defence{number}", "defence", 1) for number in range(defences)]
    path = folder / "contest.yaml"
    contest = {
        "sparring": 1,
        "contest": "questions",
        "title": "Questions",
        "format": "tournament",
        "task": {
            "name": "pictures",
            "dataset": {"kind": "npz", "path": "pictures.npz"},
            "budget": {"norm": "linf", "epsilon": 8},
        },
        "isolation": "round",
        "limits": {"perturb_batch": BATCH},
        "replay": {"power": 0, "attacks": 0},
        "rules": {"clean_floor": None},
        "submissions": submissions,
    }
    path.write_text(json.dumps(contest))  # JSON is also YAML
    return path


def play(attacks: int, defences: int, pictures: int, slots: int) -> dict[str, Any]:
    """Plays one round and returns its figures."""
    with tempfile.TemporaryDirectory(prefix="sparring-questions-") as name:
        contest = Contest(write_contest(Path(name), attacks, defences, pictures))
        options = play_rounds.RunOptions(backend="process", slots=slots, allow_unisolated=True)
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        results = play_rounds.play_round(contest, Path(name, "out"), options, lambda _: None).results
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    questions = sum(cell.total - cell.forfeits for cell in results.cells)
    players = sum(part.cpu_seconds or 0.0 for part in results.submissions)
    return {
        "round": f"{attacks}x{defences}x{pictures}",
        "questions": questions,
        "wall s": round(wall, 2),
        "own us": round(1e6 * own / questions, 1),
        "overhead us": round(1e6 * (wall * slots - players) / questions, 1),
        "peak MB": round(after.ru_maxrss / 1024),
    }


def measure(rounds: list[tuple[int, int, int]], slots: int) -> list[dict[str, Any]]:
    """Plays each round in a process of its own and returns the figures of all."""
    found: list[dict[str, Any]] = []
    for attacks, defences, pictures in rounds:
        command = [sys.executable, __file__, "--one", f"{attacks}x{defences}x{pictures}", "--slots", str(slots)]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        like_it = [other for other in found if other["round"].startswith(f"{attacks}x{defences}x")]
        row["growth"] = round(row["overhead us"] / like_it[0]["overhead us"], 2) if like_it else 1.0
        found.append(row)
        print(f"{row['round']}: {row['wall s']} s", file=sys.stderr, flush=True)
    return found


def parse_round(text: str) -> tuple[int, int, int]:
    """Returns the numbers of attacks, defences and pictures."""
    attacks, defences, pictures = map(int, text.split("x"))
    return attacks, defences, pictures


def main() -> None:
    """Measures and prints a table in Markdown."""
    parser = argparse.ArgumentParser(description="What the orchestrator takes for each question of a round.")
    parser.add_argument("--rounds", default=ROUNDS, help=f"ATTACKSxDEFENCESxPICTURES,...; default: {ROUNDS}")
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    logs.configure_logging(quiet=True)
    if asked.one:
        print(json.dumps(play(*parse_round(asked.one), asked.slots)))
        return
    found = measure([parse_round(text) for text in asked.rounds.split(",")], asked.slots)
    if asked.json:
        print(json.dumps(found, indent=2))
        return
    print(f"| {' | '.join(COLUMNS)} |\n| {' | '.join('---' for _ in COLUMNS)} |")
    for row in found:
        print(f"| {' | '.join(f'{row[name]:,}' if name != 'round' else row[name] for name in COLUMNS)} |")


if __name__ == "__main__":
    main()
