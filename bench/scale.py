"""Measures how planning, dispatching and scoring grow with the size of a round, without the players' own time.

A scripted engine returns whole cells at once: one step for each job, whose array is stored as usual. Everything else is
as in a real round: the planner, the dispatcher, the SQLite ledger, blobs in a folder, the scoring, results.json.

    python bench/scale.py [--sizes 40,75,150,300] [--pictures 1000]

Each size is one round of as many attacks as defences, played in a process of its own, so that its peak of memory is its
own. Prints a Markdown table. Seconds depend on the machine; what matters is how they grow with the number of cells. If
other work shares the machine, compare the processor seconds.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator import logs, plugins
from orchestrator.cli.console import GC_THRESHOLDS
from orchestrator.domain import events
from orchestrator.domain.outcomes import OnMissing, OnViolation
from orchestrator.domain.plan import Job, Plan, Stage
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.samples import Samples
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.domain.tasks import Budget, Isolation, Norm, Task
from orchestrator.execution.round_context import RoundContext
from orchestrator.execution.round_runner import RoundRunner
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import put_array
from orchestrator.scoring.results_file import results_json
from orchestrator.scoring.round_scoring import RoundScoring

CLASSES = 10
BASELINES = {Side.ATTACK: ("fgsm", "bim", "pgd"), Side.DEFENCE: ("undefended", "fgsm_trained")}


class ScriptedEngine:
    """Answers every job of a plan at once: attacks deliver all pictures, defences are right on some."""

    def __init__(self, setting: RoundContext) -> None:
        self._setting = setting
        self._answers = self._draw_answers()

    def run(self, plan: Plan, done: Any, perform: Any, suits: Any) -> Iterator[tuple[events.Event, ...]]:
        """Yields a step and an end event for every job that is not done, in the order of the plan."""
        del perform, suits
        agenda = plan.ready_queue(done)
        while (job := agenda.take()) is not None:
            ended = events.JobFinished(
                job=job.id, stage=job.stage, submission=job.submission, device=None, seconds=0.0, sandboxes=[]
            )
            yield self._step(job), ended
            agenda.mark_finished(job.id)

    def _draw_answers(self) -> Iterator[np.ndarray]:
        """Yields the rows of one cell after another. Draws many at once, so that a row costs almost no time."""
        count, chance = len(self._setting.samples), np.random.default_rng(1)
        rows = np.zeros((256, count, 3), np.int32)
        rows[:, :, 1] = np.arange(count)
        while True:
            rows[:, :, 2] = chance.integers(0, CLASSES, (256, count))
            yield from rows

    def _step(self, job: Job) -> events.StepFinished:
        count, blobs = len(self._setting.samples), self._setting.blobs
        if job.stage is Stage.PERTURB:
            arrays = {
                "index": np.arange(count, dtype=np.int32),
                "candidates": self._setting.samples.pixels,
                "forfeits": np.zeros(count, np.uint8),
                "violations": np.zeros(count, bool),
                "distances": np.zeros(count, np.float32),
            }
        else:
            arrays = {"rows": next(self._answers)}
        return events.StepFinished(
            job=job.id,
            stage=job.stage,
            submission=job.submission,
            step=0,
            cells=[events.CellRecord(defence=cell.defence, attack=cell.attack) for cell in job.cells],
            blobs={name: put_array(blobs, array) for name, array in arrays.items()},
            faults=[],
            seconds=0.0,
        )


def setting(size: int, pictures: int, folder: Path) -> RoundContext:
    """Returns a round of `size` attacks and defences on small pictures."""
    chance = np.random.default_rng(size)
    samples = Samples(
        chance.integers(0, 256, (pictures, 1, 4, 4), dtype=np.uint8),
        np.arange(pictures) % CLASSES,
        tuple("abcdefghij"),
    )
    roster = []
    for side, named in BASELINES.items():
        names = [*named, *(f"{side.value}{number}" for number in range(size - len(named)))]
        roster += [Submission(n, n, n, side, f"sha256:{n}", n, baseline=n in named) for n in names]
    return RoundContext(
        contest="scale",
        round="round-1",
        run="scale",
        task=Task("t", samples.classes, samples.shape, pictures, samples.digest, Budget(Norm.LINF, Fraction(8))),
        samples=samples,
        policy=SandboxPolicy(),
        isolation=Isolation.ATTACK,
        labels=True,
        on_missing=OnMissing.HELD,
        on_violation=OnViolation.FORFEIT,
        replay=SamplingDesign(power=0.0),
        seed=1,
        secret=b"s" * 32,
        roster=Roster(tuple(roster)),
        images={},
        backend=plugins.load_plugin("sandboxes", "process"),  # only its name is used
        blobs=plugins.load_plugin("stores", "folder")(folder / "blobs", pack=True),
        clock=time.monotonic,
    )


def play(stage: RoundContext, address: str, rules: Any) -> None:
    """Plays a round into the ledger at `address`."""
    ledger = plugins.load_plugin("stores", "sql")(address)
    dispatcher = RoundRunner(
        stage, ledger, RoundView(stage.blobs), lambda: "2026-01-01T00:00:00.000+00:00", lambda _: None
    )
    contest = {"contest": "scale", "title": "Scale", "format": "tournament", "isolation": "attack", "seed": 1}
    dispatcher.open_round(contest | {"limits": {"classify_batch": 1}, "replay": asdict(stage.replay)})
    dispatcher.run(ScriptedEngine(stage), rules.schedule(stage.roster))
    ledger.close()


def one(size: int, pictures: int) -> dict[str, Any]:
    """Plays one size and returns its seconds and its peak memory in MB."""
    with tempfile.TemporaryDirectory(prefix="sparring-scale-") as folder:
        stage = setting(size, pictures, Path(folder))
        kind = plugins.load_plugin("formats", "tournament")
        rules = kind(kind.rules_type())
        address = f"sqlite:///{folder}/ledger.sqlite"
        began, used = time.perf_counter(), time.process_time()
        play(stage, address, rules)
        played = time.perf_counter()
        again = plugins.load_plugin("stores", "sql")(address)
        record = RoundView(stage.blobs, (entry.event for entry in again.read()))
        read = time.perf_counter()
        results = RoundScoring(record, rules).results(again.head)
        written = sum(map(len, results_json(results)))
        scored, used = time.perf_counter(), time.process_time() - used
    return {
        "size": size,
        "cells": len(results.cells),
        "play": played - began,
        "read": read - played,
        "score": scored - read,
        "total": scored - began,
        "processor": used,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "results": written / 1e6,
    }


def main() -> None:
    """Plays every size and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="40,75,150,300")
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    logs.configure_logging(quiet=True)
    gc.set_threshold(*GC_THRESHOLDS)  # as the command line does
    if given.one:
        print(json.dumps(one(given.one, given.pictures)))
        return
    parts = ["plan and play s", "read back s", "score s", "total s", "processor s", "us a cell", "peak MB"]
    print(f"| attacks x defences | cells | {' | '.join(parts)} |")
    print("| --- " * (2 + len(parts)) + "|")
    for size in map(int, given.sizes.split(",")):
        command = [sys.executable, __file__, "--one", str(size), "--pictures", str(given.pictures)]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        seconds = " | ".join(f"{row[name]:.1f}" for name in ("play", "read", "score", "total", "processor"))
        microseconds = 1e6 * row["total"] / row["cells"]
        print(
            f"| {size} x {size} | {row['cells']} | {seconds} | {microseconds:.0f} | {row['megabytes']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
