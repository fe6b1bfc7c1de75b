"""Compares a round of ours with the runner of the NIPS 2017 competition: five attacks x five defences.

    python bench/peer.py --runner run_attacks_and_defenses.py [--backend docker|runc] [--work NAME]
        [--repetitions 3] [--json] [--record bench/results]

The runner is not ours and not in this repository: https://github.com/cleverhans-lab/cleverhans has it, in version 3.1.0
under examples/nips17_adversarial_competition/dev_toolkit. Without it only our side is measured. The players exist for
both: the same arithmetic on the same pictures, once for the image protocol ("native") and once in the layout of 2017
("files"), which we play through the adapter. The three ways take turns, so that a slow moment of the machine affects
all of them:

    peer       the runner of 2017, which starts a container for each submission, one after the other, without limits
    default    `sparring round run` with isolation `attack` and replays at .99 / 1 %
    round      the same with isolation `round` and without replays: as many sandboxes as the peer has; "files" with
               100 pictures in a question, although rule A9 requires one

Each time is that of the whole command. The factors are our time divided by the peer's in the same turn. The accuracies
of all 25 cells have to agree, or the program exits with 1. It needs Docker, root for `--backend runc`, `make images`.
"""

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

BASE = "sparring/base:cpu"
PEER_IMAGE = "sparring-bench/peer"
PEER_RECIPE = f"FROM {BASE}\nUSER root\n"
"""The submissions run as root, because the runner of 2017 makes them write to folders of root."""
PER_SIDE = 5
EPSILON = 8
CLASSES = 10
SPARRING = (sys.executable, "-m", "orchestrator")
ROOT = Path(__file__).resolve().parents[1]
OLD_NUMPY = """
import runpy, sys
import numpy
numpy.object = object
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Restores a name that NumPy has dropped since the runner was written."""
REPLAYS = {"default": {"power": 0.99, "cheat": 0.01}, "round": {"power": 0, "attacks": 0}}
ISOLATION = {"default": "attack", "round": "round"}
Cells = dict[tuple[str, str], int]
"""How many pictures were classified correctly, by attack and defence."""


@dataclass(frozen=True)
class Work:
    """A kind of work: the size and number of pictures, the players' layout, and the wanted factors."""

    side: int
    count: int
    layout: str
    language: str
    goals: dict[str, float]

    @property
    def name(self) -> str:
        """Its name on the command line."""
        return f"{self.layout}-{self.side}-{self.count}-{self.language}"


WORKS = (
    Work(32, 100, "native", "python", {"default": 1.0, "round": 0.5}),
    Work(32, 1000, "native", "python", {"default": 0.7, "round": 0.4}),
    Work(299, 100, "native", "python", {"default": 0.5, "round": 0.33}),
    Work(299, 100, "files", "python", {"round": 0.6}),
    Work(299, 100, "files", "shell", {"round": 0.33}),
    Work(32, 10, "files", "python", {"round": 1.0}),
)

NATIVE_ATTACK = """
from sparring_player import Attack, serve


class Flip(Attack):
    def load(self, task):
        pass

    def perturb(self, pixels, labels):
        return pixels ^ {number}


serve(Flip())
"""
NATIVE_DEFENCE = """
import numpy as np
from sparring_player import Defence, serve


class Sum(Defence):
    def load(self, task):
        pass

    def classify(self, pixels):
        return [int(picture.sum(dtype=np.int64)) // {number} % 10 for picture in pixels]


serve(Sum())
"""
FILES_ATTACK = """#!/usr/bin/env python3
import os
import sys

import numpy as np
from PIL import Image

source, target = sys.argv[1:3]
for name in os.listdir(source):
    if name.endswith(".png"):
        pixels = np.array(Image.open(os.path.join(source, name)).convert("RGB"))
        Image.fromarray(pixels ^ {number}).save(os.path.join(target, name))
"""
FILES_DEFENCE = """#!/usr/bin/env python3
import os
import sys

import numpy as np
from PIL import Image

source, target = sys.argv[1:3]
with open(target, "w") as file:
    for name in os.listdir(source):
        if name.endswith(".png"):
            pixels = np.array(Image.open(os.path.join(source, name)).convert("RGB"))
            file.write("%s,%d\\n" % (name, int(pixels.sum(dtype=np.int64)) // {number} % 10))
"""
SHELL_ATTACK = """#!/bin/sh
cp "$1"/*.png "$2"
"""
SHELL_DEFENCE = """#!/bin/sh
for file in "$1"/*.png; do
    echo "${{file##*/}},{number}"
done >"$2"
"""
RECIPE = """ARG BASE={base}
FROM ${{BASE}}
COPY player.py /opt/player/
WORKDIR /opt/player
CMD ["python", "player.py"]
"""


class Bench:
    """One kind of work, prepared in a folder: pictures and players for both sides."""

    def __init__(self, work: Work, folder: Path, backend: str) -> None:
        self.work, self.folder, self.backend = work, folder, backend
        self.seconds = 0.0  # the duration of the last round
        chance = np.random.default_rng(0)
        self._pictures = chance.integers(0, 256, (work.count, work.side, work.side, 3)).astype(np.uint8)
        self._labels = np.arange(work.count) % CLASSES
        folder.mkdir()
        self._write_pictures()
        entries = [
            self._write_player(kind, number) for kind in ("attack", "defence") for number in range(1, PER_SIDE + 1)
        ]
        for way, isolation in ISOLATION.items():
            self._write_contest(way, isolation, entries)

    def play_peer(self, runner: Path) -> Cells:
        """Plays the round with the runner of 2017; returns the number of correctly classified pictures of each cell."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            fresh = Path(name)
            shutil.copytree(self.folder / "dataset", fresh / "dataset")  # the runner writes there
            for empty in ("targeted", "between", "out"):
                (fresh / empty).mkdir()
            options = {
                "attacks_dir": self.folder / "peer" / "attack",
                "targeted_attacks_dir": fresh / "targeted",
                "defenses_dir": self.folder / "peer" / "defence",
                "dataset_dir": fresh / "dataset",
                "dataset_metadata": self.folder / "labels.csv",
                "intermediate_results_dir": fresh / "between",
                "output_dir": fresh / "out",
                "epsilon": EPSILON,
            }
            words = [f"--{option}={value}" for option, value in options.items()]
            began = time.perf_counter()
            run([sys.executable, "-c", OLD_NUMPY, str(runner), *words, "--nogpu"])
            self.seconds = time.perf_counter() - began
            self._remove_containers()
            with (fresh / "out" / "accuracy_on_attacks.csv").open(encoding="utf-8") as file:
                (_, *defences), *rows = csv.reader(file)
            return {
                (row[0], name): int(float(right)) for row in rows for name, right in zip(defences, row[1:], strict=True)
            }

    def play_ours(self, way: str) -> Cells:
        """Plays the round with `sparring round run`; returns the correctly classified pictures of each cell."""
        out = self.folder / "out"
        words = ["round", "run", str(self.folder / f"{way}.yaml"), "--out", str(out), "--backend", self.backend]
        began = time.perf_counter()
        run([*SPARRING, *words, "--slots", "2"])
        self.seconds = time.perf_counter() - began
        cells = json.loads((out / "results.json").read_text("utf-8"))["cells"]
        shutil.rmtree(out)
        return {(cell["attack"], cell["defence"]): cell["held"] for cell in cells if cell["attack"]}

    def _remove_containers(self) -> None:
        """Removes the containers that the runner of 2017 leaves, one for each submission."""
        for place in (self.folder / "peer").glob("*/*"):
            found = subprocess.run(
                ["docker", "ps", "--all", "--quiet", "--filter", f"volume={place}"], capture_output=True, check=True
            )
            for container in found.stdout.decode().split():
                run(["docker", "rm", "--volumes", container])

    def _write_pictures(self) -> None:
        np.savez(self.folder / "pictures.npz", images=self._pictures, labels=self._labels)
        (self.folder / "dataset").mkdir()
        with (self.folder / "labels.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["ImageId", "TrueLabel", "TargetClass"])
            for number, (pixels, label) in enumerate(zip(self._pictures, self._labels, strict=True)):
                Image.fromarray(pixels).save(self.folder / "dataset" / f"{number:06}.png")
                rows.writerow([f"{number:06}", label, 0])

    def _write_player(self, kind: str, number: int) -> dict[str, str]:
        """Writes a player for both sides, builds its image, and returns its entry in the contest file."""
        name, script = f"{kind}-{number}", f"run_{kind}.sh"
        texts = {
            ("attack", "python"): FILES_ATTACK,
            ("defence", "python"): FILES_DEFENCE,
            ("attack", "shell"): SHELL_ATTACK,
            ("defence", "shell"): SHELL_DEFENCE,
        }
        text = texts[kind, self.work.language].format(number=number)
        metadata = {"type": kind.replace("defence", "defense"), "container": PEER_IMAGE, "entry_point": script}
        peer = self.folder / "peer" / kind / name
        peer.mkdir(parents=True)
        (peer / "metadata.json").write_text(json.dumps(metadata), "utf-8")
        (peer / script).write_text(text, "utf-8")
        (peer / script).chmod(0o755)
        ours = self.folder / "ours" / name
        if self.work.layout == "files":
            shutil.copytree(peer, ours)
            run([*SPARRING, "submission", "import", str(ours), "--name", name])
        else:
            native = NATIVE_ATTACK if kind == "attack" else NATIVE_DEFENCE
            ours.mkdir(parents=True)
            (ours / "player.py").write_text(native.format(number=number), "utf-8")
            (ours / "Dockerfile").write_text(RECIPE.format(base=BASE), "utf-8")
            manifest = {"sparring": 1, "name": name, "side": kind, "command": ["python", "player.py"]}
            manifest["image"] = f"sparring-bench/{self.work.name}-{name}"
            (ours / "submission.yaml").write_text(json.dumps(manifest), "utf-8")
        run([*SPARRING, "submission", "build", str(ours)])
        return {"folder": str(ours), "team": f"Team {name}"}

    def _batch(self, way: str) -> int:
        """Returns how many pictures a question has. With 100, a script starts once for all pictures, as in 2017."""
        return 100 if self.work.layout == "files" and way == "round" else 1

    def _write_contest(self, way: str, isolation: str, entries: list[dict[str, str]]) -> None:
        contest = {
            "sparring": 1,
            "contest": "peer",
            "title": f"Bench {self.work.name}",
            "format": "tournament",
            "task": {
                "name": "noise",
                "dataset": {"kind": "npz", "path": "pictures.npz"},
                "budget": {"norm": "linf", "epsilon": EPSILON},
            },
            "isolation": isolation,
            "replay": REPLAYS[way],
            "limits": {"memory": "1GiB", "perturb_batch": 100, "classify_batch": self._batch(way)},
            "rules": {"clean_floor": None},
            "submissions": entries,
        }
        (self.folder / f"{way}.yaml").write_text(json.dumps(contest), "utf-8")


def run(words: list[str]) -> None:
    """Runs a program without showing its output. If it fails, exits with the end of its output."""
    done = subprocess.run(words, capture_output=True, check=False, cwd=ROOT)
    if done.returncode:
        said = (done.stdout + done.stderr).decode("utf-8", "replace")[-6000:]
        sys.exit(f"{' '.join(words)[:200]} ended with {done.returncode}:\n{said}")


def build_peer_image() -> None:
    """Builds the image that the runner of 2017 starts."""
    with tempfile.TemporaryDirectory() as name:
        Path(name, "Dockerfile").write_text(PEER_RECIPE, "utf-8")
        run(["docker", "build", "--quiet", "--network", "none", "--tag", PEER_IMAGE, name])


def measure(bench: Bench, runner: Path | None, repetitions: int) -> dict[str, Any]:
    """Returns seconds and factors of one kind of work. Exits if the cells disagree."""
    ways: dict[str, Callable[[], Cells]] = {} if runner is None else {"peer": partial(bench.play_peer, runner)}
    ways |= {way: partial(bench.play_ours, way) for way in bench.work.goals}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(repetitions):
        found = {}
        for way, play in ways.items():
            found[way] = play()
            seconds[way].append(bench.seconds)
            say(f"{bench.work.name} turn {turn + 1}: {way} {bench.seconds:.2f} s")
        if any(cells != found[next(iter(found))] for cells in found.values()):
            sys.exit(f"{bench.work.name}: the cells disagree: {found}")
    result: dict[str, Any] = {"work": bench.work.name, "backend": bench.backend, "seconds": seconds, "factors": {}}
    for way, goal in bench.work.goals.items():
        factors = [ours / peer for ours, peer in zip(seconds[way], seconds.get("peer", []), strict=False)]
        result["factors"][way] = {"goal": goal, "measured": factors}
    return result


def lines(results: list[dict[str, Any]]) -> list[str]:
    """Returns the table: one line for each kind of work and way."""
    table = [
        "| work | way | ours, s | 2017 runner, s | factor min / median / max | goal |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        peer = result["seconds"].get("peer")
        for way, found in result["factors"].items():
            factors = sorted(found["measured"])
            shown = f"{factors[0]:.2f} / **{median(factors):.2f}** / {factors[-1]:.2f}" if factors else "-"
            ours, theirs = spread(result["seconds"][way]), "-" if peer is None else spread(peer)
            table.append(f"| {result['work']} | {way} | {ours} | {theirs} | {shown} | {found['goal']} |")
    return table


def spread(seconds: list[float]) -> str:
    """Returns the smallest and the largest."""
    return f"{min(seconds):.1f} - {max(seconds):.1f}"


def say(text: str) -> None:
    """Prints progress, separately from the table."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measures every kind of work and prints the table."""
    parser = argparse.ArgumentParser(description="A round of ours against the runner of NIPS 2017.")
    parser.add_argument("--runner", type=Path, help="run_attacks_and_defenses.py of a clone of cleverhans")
    parser.add_argument("--backend", default="docker", choices=("docker", "runc"))
    parser.add_argument("--work", action="append", choices=[work.name for work in WORKS])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    if asked.runner is None:
        say("no --runner: our side alone is measured; what was measured beside it stands in bench/results/")
    elif not asked.runner.is_file():
        parser.error(f"there is no file {asked.runner}")
    build_peer_image()
    results = []
    for work in WORKS:
        if asked.work is None or work.name in asked.work:
            with tempfile.TemporaryDirectory(prefix="sparring-peer-") as name:
                bench = Bench(work, Path(name) / "work", asked.backend)
                results.append(measure(bench, asked.runner and asked.runner.resolve(), asked.repetitions))
    print(json.dumps(results, indent=1) if asked.json else "\n".join(lines(results)))
    if asked.record:
        path = asked.record / f"{datetime.now(UTC):%Y-%m-%d}-peer-{asked.backend}.md"
        title = f"# The runner of NIPS 2017 and ours, {asked.backend} backend, {datetime.now(UTC):%Y-%m-%d}"
        path.write_text("\n".join([title, "", *lines(results), ""]), encoding="utf-8")
        say(f"recorded in {path}")


if __name__ == "__main__":
    main()
