"""Compares attacks that query through the whole orchestrator with the same attacks run directly on the network.

    python bench/query_truth.py --data DIR [--pictures 100] [--epsilon 8] [--json] [--record bench/results]

DIR holds `cifar10/eval1000.npz` (images uint8 [n, h, w, 3], labels) and `cifar10/models/` with the weights of two
CifarNets: `cifar_resnet_clean.safetensors`, undefended, and `cifar_resnet_fgsm_at.safetensors`, with FGSM adversarial
training. Square (1,000 queries), SPSA (1,000) and HopSkipJump (2,000) of examples/query/ attack both. HopSkipJump has a
contest of its own, because a contest has one budget. Each attack then runs in this process on the same pictures and
seeds, and queries the network directly in questions of the same size; its candidates are judged one by one.

The accuracies under attack are compared, with Wilson's 95 % intervals. The program exits with 1 if a figure of the
orchestrator is outside the interval of the direct run, or if the intervals of both networks overlap.
"""

import argparse
import gc
import importlib.util
import json
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "images" / "_base" / "python"))

import sparring_player  # noqa: E402  writes print() to standard error from here on, and stops the collector
from sparring_models import load_network, logits  # noqa: E402

from orchestrator.application.rounds import play_rounds  # noqa: E402
from orchestrator.domain.ids import derive_seed  # noqa: E402
from orchestrator.intake.contest_file import Contest  # noqa: E402
from orchestrator.measures import uncertainty  # noqa: E402

MODELS = {"undefended": "cifar_resnet_clean", "robust": "cifar_resnet_fgsm_at"}
BUDGETS = {1000: ("square", "spsa"), 2000: ("hopskipjump",)}
"""Queries for each picture -> the attacks with that budget."""
QUESTION, BATCH = 20, 64
"""The number of pictures in one question to an attack, and in one to a defence."""
SEED = 2026


def main() -> int:
    """Plays the contests, runs the attacks directly, compares and prints."""
    gc.enable()
    asked = _arguments()
    rows = []
    with tempfile.TemporaryDirectory(prefix="sparring-query-truth-") as folder:
        for budget, attacks in BUDGETS.items():
            rows += compare(Path(folder) / str(budget), asked, budget, attacks)
    problems = find_problems(rows)
    report = {"pictures": asked.pictures, "epsilon": asked.epsilon, "rows": rows, "problems": problems}
    table = as_markdown(report)
    print(json.dumps(report, indent=2) if asked.json else table, file=sys.__stdout__)
    if asked.record:
        name = f"{datetime.now(UTC):%Y-%m-%d}-query-truth.md"
        (asked.record / name).write_text(table, "utf-8")
    return 1 if problems else 0


def compare(folder: Path, asked: argparse.Namespace, budget: int, attacks: tuple[str, ...]) -> list[dict[str, Any]]:
    """Returns a row for each attack and network: accuracy through the orchestrator and directly."""
    folder.mkdir()
    file = folder / "contest.yaml"
    file.write_text(json.dumps(contest(folder, asked, budget, attacks)))
    began = time.monotonic()
    loaded = Contest(file)
    results = play_rounds.play_round(
        loaded, folder / "out", play_rounds.RunOptions(allow_unisolated=True), lambda _: None
    ).results
    played = time.monotonic() - began
    held = {(cell.defence, cell.attack): cell.held for cell in results.cells}
    queries = {(part.defence, part.attack): part for part in results.queries}
    samples, rows = loaded.load_samples(), []
    for attack in attacks:
        for model in MODELS:
            began = time.monotonic()
            correct = direct_run(folder, attack, model, samples, asked.epsilon, budget)
            rows.append(
                {
                    "attack": attack,
                    "network": model,
                    "queries": budget,
                    "pictures": asked.pictures,
                    "orchestrator": held[model, attack],
                    "direct": correct,
                    "interval": _interval(held[model, attack], asked.pictures),
                    "direct_interval": _interval(correct, asked.pictures),
                    "median": queries[model, attack].median,
                    "direct_seconds": round(time.monotonic() - began, 1),
                    "round_seconds": round(played, 1),
                }
            )
    return rows


def contest(folder: Path, asked: argparse.Namespace, budget: int, attacks: tuple[str, ...]) -> dict[str, Any]:
    """Writes the contest of both networks against these attacks, on the first pictures, and returns it."""
    entries = [{"folder": str(ROOT / "examples" / "query" / "players" / f"attack_{name}")} for name in attacks]
    for model, weights in MODELS.items():
        made = folder / model
        shutil.copytree(ROOT / "images" / "defence_undefended", made)
        manifest = yaml.safe_load((made / "submission.yaml").read_text())
        (made / "submission.yaml").write_text(json.dumps({**manifest, "image": f"sparring-bench/{model}"}))
        shutil.copy(asked.data / "cifar10" / "models" / f"{weights}.safetensors", made / "weights.safetensors")
        entries.append({"folder": str(made), "name": model})
    return {
        "sparring": 1,
        "contest": "query-truth",
        "title": "Attacks that query",
        "format": "tournament",
        "seed": SEED,
        "task": {
            "name": "cifar10",
            "dataset": {
                "kind": "npz",
                "path": str((asked.data / "cifar10" / "eval1000.npz").resolve()),
                "first": asked.pictures,
            },
            "budget": {"norm": "linf", "epsilon": asked.epsilon},
        },
        "access": {"kind": "scores", "queries": budget, "batch": BATCH},
        "replay": {"power": 0},
        "limits": {"perturb_batch": QUESTION, "classify_batch": BATCH, "perturb_seconds": 3600, "classify_seconds": 60},
        "rules": {"clean_floor": None},
        "submissions": [{"team": "bench", **entry} for entry in entries],
    }


def direct_run(folder: Path, attack: str, model: str, samples: Any, epsilon: int, budget: int) -> int:
    """Returns how many pictures the network gets right after an attack that queries it without the orchestrator."""
    task = LocalTask(folder / model / "weights.safetensors", attack, samples, epsilon, budget)
    player = attack_class(attack)()
    player.load(task)
    correct = 0
    for start in range(0, len(samples), QUESTION):
        pixels, labels = samples.pixels[start : start + QUESTION], samples.labels[start : start + QUESTION]
        task.begin(len(pixels))
        candidates = pixels.copy()
        for place, candidate in player.perturb(pixels, labels):
            candidates[place] = candidate
        far = np.abs(candidates.astype(int) - pixels).reshape(len(pixels), -1).max(axis=1)
        shown = np.where((far <= epsilon)[:, None, None, None], candidates, pixels)
        correct += int((logits(task.network, shown).argmax(1) == labels).sum())
    return correct


class LocalTask(sparring_player.Task):
    """A task whose queries a network in this process answers, in questions of `BATCH` pictures."""

    def __init__(self, weights: Path, attack: str, samples: Any, epsilon: int, budget: int) -> None:
        limits: dict[str, Any] = {
            "queries": {"per_picture": budget, "batch": BATCH, "prices": {"decision": 1, "scores": 1}}
        }
        header = {
            "name": "cifar10",
            "classes": list(samples.classes),
            "shape": list(samples.shape),
            "budget": {"norm": "linf", "epsilon": float(epsilon)},
        }
        limits |= {"batch": QUESTION, "step_seconds": 3600.0, "threads": 1}
        seed = derive_seed(b"attack", str(SEED), samples.digest, attack)
        super().__init__({"role": "attack", "task": header, "limits": limits, "seed": seed})
        self.network = load_network(weights, SimpleNamespace(shape=samples.shape, classes=samples.classes, threads=1))
        self._budget = budget

    def begin(self, count: int) -> None:
        """Begins a question of `count` pictures, each with its whole budget."""
        self.left = np.full(count, self._budget)

    def ask(self, pixels: Any, positions: Any = None, want: str = "decision") -> np.ndarray:
        """Answers as `Task.ask` does."""
        pixels = np.asarray(pixels, np.uint8).reshape(-1, *self.shape)
        places = np.broadcast_to(0 if positions is None else np.asarray(positions), len(pixels))
        cost = np.bincount(places, minlength=len(self.left))
        if (cost > self.left).any():
            raise sparring_player.BudgetSpent("nothing is left")
        self.left = self.left - cost
        values = np.concatenate([logits(self.network, pixels[at : at + BATCH]) for at in range(0, len(pixels), BATCH)])
        return values if want == "scores" else values.argmax(1)


def attack_class(name: str) -> type:
    """Returns the attack class in a player's program, without serving it."""
    path = ROOT / "examples" / "query" / "players" / f"attack_{name}" / "player.py"
    spec = importlib.util.spec_from_file_location(f"attack_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return next(
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, sparring_player.Attack) and value is not sparring_player.Attack
    )


def find_problems(rows: list[dict[str, Any]]) -> list[str]:
    """Returns the figures that do not agree, and the attacks under which the networks cannot be distinguished."""
    problems = []
    for row in rows:
        low, high = row["direct_interval"]
        if not low <= row["orchestrator"] / row["pictures"] <= high:
            problems.append(f"{row['attack']} on {row['network']}: {row['orchestrator']} is outside {low} to {high}")
    for attack in {row["attack"] for row in rows}:
        undefended, robust = (
            next(row for row in rows if (row["attack"], row["network"]) == (attack, model))["interval"]
            for model in MODELS
        )
        if undefended[1] >= robust[0]:
            problems.append(f"{attack}: the intervals of both networks overlap, {undefended} and {robust}")
    return problems


def as_markdown(report: dict[str, Any]) -> str:
    """Returns the figures as a page of Markdown."""
    subject = f"{report['pictures']} pictures of CIFAR-10, Linf budget {report['epsilon']}/255, process backend"
    lines = [
        "# Attacks that query, through the orchestrator and directly",
        "",
        f"`bench/query_truth.py`, {subject}. Accuracy under attack, of so many pictures; Wilson's 95 % intervals.",
        "",
        "| attack | queries | network | orchestrator | 95 % | direct | 95 % | median queries |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in report["rows"]:
        one, other = (
            "{:.1f} to {:.1f}".format(*(100 * x for x in row[key])) for key in ("interval", "direct_interval")
        )
        cells = (row["attack"], f"{row['queries']:,}", row["network"], row["orchestrator"], one, row["direct"], other)
        lines.append("| " + " | ".join(map(str, (*cells, row["median"] or "more"))) + " |")
    lines += [
        "",
        "Nothing disagrees." if not report["problems"] else "\n".join(f"- {p}" for p in report["problems"]),
        "",
    ]
    return "\n".join(lines)


def _interval(correct: int, pictures: int) -> tuple[float, float]:
    limits = uncertainty.accuracy_intervals(correct, pictures)
    return round(float(limits.low), 4), round(float(limits.high), 4)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with cifar10/")
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--epsilon", type=int, default=8, help="in steps of 1/255")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--record", type=Path, help="folder for a page with the figures")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
