"""Measures a round's wall time against its players' own processor time, as ratios of one run.

    python bench/round.py [--backend process|docker|runc] [--pictures 200] [--isolation round|attack]
        [--slots N] [--gpu] [--json] [--record bench/results]

Plays the demo's contest, with --gpu with CUDA and a slot for each GPU, and prints:

    overhead    wall time x slots / (processor seconds that the players used, loading included, + the seconds to start
                and end as many empty containers); 1.0 is perfect
    own share   processor seconds of the orchestrator / processor seconds of the players
    work share  seconds between question and last reply / processor seconds of the players

By default there is one slot fewer than processors, at least one. With a slot for each, the players and the orchestrator
take turns on the processors, so that its own share is part of the overhead.

Empty containers are started before the round, as many at a time as there are slots: on docker by the engine, on runc by
runc over the same mounts, each running `true`. On the process backend an empty container is a process.

The figures are ratios of one run on one machine; absolute seconds are shown as context. --record also writes them to a
file with today's date, with the machine and the boards.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import docker

from orchestrator import composition, logs, resources
from orchestrator.application.rounds import gpu_check, play_rounds
from orchestrator.errors import BackendUnavailable
from orchestrator.gpus import list_gpus
from orchestrator.intake.contest_file import Contest
from orchestrator.scoring.results_file import Results

Figures = dict[str, float | str | int]
BASE = "sparring/base:cpu"
BARE_STARTS = 20


def demo_contest(pictures: int, isolation: str, folder: Path) -> Contest:
    """Returns the demo's contest with this isolation.

    With a number of pictures, it uses that many digits of the training split, which has more.
    """
    shipped = resources.resource_path("examples", "demo")
    text = (shipped / "contest.yaml").read_text("utf-8")
    text, count = re.subn(r"^isolation: \w+", f"isolation: {isolation}", text, flags=re.MULTILINE)
    assert count == 1
    if pictures:
        text, count = re.subn(r"split: test, first: \d+", f"split: train, first: {pictures}", text)
        assert count == 1
    path = folder / "contest.yaml"
    path.write_text(re.sub(r"folder: (\S+?)([,}])", rf"folder: {shipped}/\1\2", text), "utf-8")
    return Contest(path)


def start_process(_: int) -> None:
    """Starts and ends a process."""
    subprocess.run(["true"], check=True)


def start_on_docker(_: int) -> None:
    """Creates, starts and removes a container with the engine."""
    client = docker.from_env()
    client.containers.run(BASE, ["true"], entrypoint=[], network_disabled=True, remove=True)
    client.close()


def start_on_runc(image: Path, folder: Path) -> Callable[[int], None]:
    """Returns a function that creates, starts and removes a container with runc, over a mount of its own."""

    def start(number: int) -> None:
        bundle = folder / str(number)
        (bundle / "rootfs").mkdir(parents=True)
        subprocess.run(["runc", "spec"], cwd=bundle, check=True)
        config: dict[str, Any] = json.loads((bundle / "config.json").read_text())
        config["process"] |= {"args": ["true"], "terminal": False}
        (bundle / "config.json").write_text(json.dumps(config))
        words = (
            f"mount -t squashfs -o ro,loop {image} {bundle}/rootfs && runc run -b {bundle} bench-{os.getpid()}-{number}"
        )
        subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", words], check=True)

    return start


def bare_start_seconds(backend: str, slots: int) -> float:
    """Returns how many seconds a slot needs to start and end an empty container while all slots do so."""
    with tempfile.TemporaryDirectory(prefix="sparring-bench-") as folder:
        start: Callable[[int], object] = start_on_docker
        if backend == "process":
            start = start_process
        elif backend == "runc":
            runner = composition.make_backend("runc", Path(folder))
            identity = runner.inspect_image(BASE, files=False).image_id
            start = start_on_runc(runner._rootfs.file(identity, "/"), Path(folder))  # noqa: SLF001  the same file
        start(-1)
        began = time.perf_counter()
        with ThreadPoolExecutor(slots) as pool:
            list(pool.map(start, range(BARE_STARTS)))
        return (time.perf_counter() - began) * slots / BARE_STARTS


def measure(backend: str, slots: int, pictures: int, isolation: str, *, gpu: bool = False) -> tuple[Figures, Results]:
    """Plays the demo once and returns the figures and the results. Raises BackendUnavailable without a GPU to use."""
    computing = f"{os.cpu_count()} cores"
    with tempfile.TemporaryDirectory(prefix="sparring-bench-") as folder:
        contest = demo_contest(pictures, isolation, Path(folder))
        if gpu:
            contest, slots = gpu_check.with_gpus(contest), len(list_gpus())
            computing = gpu_check.require_gpu(contest, backend)
        bare = bare_start_seconds(backend, slots)
        options = play_rounds.RunOptions(backend=backend, slots=slots, allow_unisolated=True)
        before = resource.getrusage(resource.RUSAGE_SELF)
        began = time.perf_counter()
        results = play_rounds.play_round(contest, Path(folder) / "out", options, lambda _: None).results
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_SELF)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    players = sum(part.cpu_seconds or 0.0 for part in results.submissions)
    work = sum(part.seconds for part in results.submissions)
    sandboxes = sum(part.sandboxes for part in results.submissions)
    questions = sum(cell.total - cell.forfeits for cell in results.cells)
    figures: Figures = {
        "computing": computing,
        "gpus": slots if gpu else 0,
        "backend": backend,
        "slots": slots,
        "pictures": results.task.pictures,
        "isolation": results.isolation,
        "sandboxes": sandboxes,
        "questions": questions,
        "wall_seconds": round(wall, 2),
        "players_cpu_seconds": round(players, 2),
        "bare_start_seconds": round(bare, 3),
        "overhead": round(wall * slots / (players + bare * sandboxes), 3),
        "own_share": round(own / players, 3),
        "work_share": round(work / players, 3),
    }
    return figures, results


def record(folder: Path, figures: Figures, results: Results) -> Path:
    """Writes the figures and the boards to a file with today's date; returns its path."""
    now = datetime.now(UTC)
    where = "gpu" if figures["gpus"] else "cpu"
    path = folder / f"{now:%Y-%m-%d}-demo-{where}.md"
    lines = [f"# The demo on {figures['computing']}, {figures['backend']} backend, {now:%Y-%m-%d}", ""]
    lines += [f"`python bench/round.py`, Sparring {results.software}; what the figures mean is in its first lines.", ""]
    lines += ["| figure | value |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in figures.items())]
    for board in results.boards:
        lines += ["", f"**{board.title}**: {board.measure}, in {board.unit}.", ""]
        lines += ["| rank | submission | score |", "| --- | --- | --- |"]
        scores = {row.submission: "" if row.score is None else f"{row.score:.2f}" for row in board.rows}
        lines += [f"| {row.rank or ''} | {row.submission} | {scores[row.submission]} |" for row in board.rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="A round's wall time against its players' own compute.")
    parser.add_argument("--backend", default="process")
    parser.add_argument("--pictures", type=int, default=0, help="default: the demo's 200")
    parser.add_argument("--isolation", choices=["round", "attack"], default="round", help="default: the demo's, round")
    default = max(1, (os.cpu_count() or 1) - 1)
    parser.add_argument("--slots", type=int, default=default, help="default here: %(default)s")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    logs.configure_logging(quiet=True)
    try:
        figures, results = measure(asked.backend, asked.slots, asked.pictures, asked.isolation, gpu=asked.gpu)
    except BackendUnavailable as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        sys.exit(3)
    if asked.record:
        print(f"recorded in {record(asked.record, figures, results)}", file=sys.stderr)
    if asked.json:
        json.dump(figures, sys.stdout, indent=2)
        print()
        return
    for name, value in figures.items():
        print(f"{name:20} {value}")


if __name__ == "__main__":
    main()
