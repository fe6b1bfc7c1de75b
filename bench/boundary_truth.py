"""Compares the warm-up's boundary attack with that of foolbox 1.5.0, which the warm-up of 2018 ran (rule B2).

    python bench/boundary_truth.py --foolbox ENV/bin/python [--workers 2] [--record FILE]
    python bench/boundary_truth.py --check tests/formats/warmup/boundary_foolbox.json [--setting early] [--changed]

Both attack 200 sixes and sevens of scikit-learn's digits, 28 x 28, from the same start pictures. The classifier is a
sum of Gaussians around 100 other digits, in NumPy. Our attack sends floats, as foolbox does, so nothing is rounded to
bytes. Two settings are compared, each with a distance at which about half of the attacks succeed, where a test of
counts is most sensitive:

- early: 200 iterations, after which the walk is still moving. The steps of the walk decide which attacks succeed.
- full: 5000 iterations, as in 2018. Most walks have converged, and the picture matters more than the attack.

A success is what counted in 2018: the judged picture, moved onto the sphere if the walk ended outside, is misread.
Foolbox draws from several threads, so only distributions can be compared: Fisher's exact test on the numbers of
successes, and McNemar's exact test on the pictures that only one of the two fooled. Both are two-sided. Over pictures
that neither fooled, `distance_ratio` is the median of our distance at the end, divided by foolbox's.

The first form needs an environment with foolbox (see bench/boundary_foolbox.py), runs both sides and prints the figures
for a test in tests/formats/warmup/. The second runs only our side and compares it with such a record; `--changed` also
runs our attack with one constant changed at a time, which shows the differences that the comparison would notice.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, fisher_exact

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.path.insert(0, str(Path(__file__).resolve().parent))

from boundary_foolbox import Classifier

from orchestrator.application.baselines.training import load_digits
from orchestrator.formats.warmup.attacks import boundary
from orchestrator.formats.warmup.attacks.base import play_attacks, predicted_classes, to_floats

PICTURES = 200
WIDTH = 2.0
"""The standard deviation of each Gaussian of the classifier."""
SETTINGS = {"early": (200, 5.15), "full": (5000, 4.25)}
"""The iterations and the distance of each setting."""
SEED = 2018
CHANGES: dict[str, dict[str, Any]] = {
    "first steps of 0.02 in place of 0.01": {"_StepSizes": partial(boundary._StepSizes, 0.02, 0.02)},  # noqa: SLF001
    "first steps of 0.005 in place of 0.01": {"_StepSizes": partial(boundary._StepSizes, 0.005, 0.005)},  # noqa: SLF001
    "steps change by 1.2 in place of 1.5": {"_ADAPTATION": 1.2},
    "steps change by 2 in place of 1.5": {"_ADAPTATION": 2.0},
    "steps never change": {"_ADAPTATION": 1.0},
    "steps grow above 0.8 in place of 0.5": {"_TOO_EASY": 0.8},
    "steps shrink below 0.4 in place of 0.2": {"_TOO_HARD": 0.4},
    "the sphere is looked at in each step": {"_SPHERE_CHECKED_EVERY": 1},
}
"""For each change, the constants of our attack with their changed values."""
Task = dict[str, Any]
"""The arrays and numbers that bench/boundary_foolbox.py reads."""


def make_task(setting: str, numbers: Sequence[int] = range(PICTURES)) -> Task:
    """Returns the pictures with these numbers, and the other arguments of both attacks."""
    attacked, prototypes = (load_digits(split, ("6", "7"), 28) for split in ("train", "test"))
    pictures, labels = to_floats(attacked.pixels[:PICTURES]), attacked.labels[:PICTURES]
    rng = np.random.default_rng(SEED)
    starts = np.array([rng.choice(np.flatnonzero(labels != label)) for label in labels])
    chosen = np.asarray(numbers)
    iterations, distance = SETTINGS[setting]
    return {
        "numbers": chosen,
        "pictures": pictures[chosen],
        "labels": labels[chosen],
        "starts": pictures[starts[chosen]],
        "prototypes": to_floats(prototypes.pixels),
        "prototype_classes": prototypes.labels,
        "width": WIDTH,
        "iterations": iterations,
        "distance": distance,
    }


def run_ours(task: Task) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Returns which pictures [n] our attack fools as they are judged, and how near it came [n].

    The latter is the distance of the nearest misread picture among its queries, before any projection.
    """
    ask = Classifier(task["prototypes"], task["prototype_classes"], task["width"]).batch_predictions
    attacks = []
    for number, picture, label, start in zip(
        *(task[name] for name in ("numbers", "pictures", "labels", "starts")), strict=True
    ):
        attack = boundary.Boundary(task["distance"], (start[None], start[None]), iterations=task["iterations"])
        attacks.append(attack.attack(picture, int(label), np.random.default_rng([SEED, int(number)])))
    judged, nearest = np.empty_like(task["pictures"]), np.full(len(attacks), np.inf)

    def noted(asked: NDArray[np.float32], of: NDArray[np.int64]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = ask(asked)
        far = np.linalg.norm((asked - task["pictures"][of]).reshape(len(asked), -1), axis=1)
        misread = predicted_classes(scores) != task["labels"][of]
        np.minimum.at(nearest, of[misread], far[misread])
        return scores

    for finished in play_attacks(attacks, noted, len(attacks)):
        assert not finished.result.give_up_reason
        judged[finished.number] = finished.result.picture
    return predicted_classes(ask(judged)) != task["labels"], nearest


def run_foolbox(python: Path, setting: str, workers: int) -> dict[str, NDArray[Any]]:
    """Returns `successes` and `distances` of foolbox; `workers` processes share the pictures."""
    program = Path(__file__).with_name("boundary_foolbox.py")
    found = {"successes": np.zeros(PICTURES, bool), "distances": np.zeros(PICTURES)}
    with tempfile.TemporaryDirectory(prefix="sparring-boundary-") as folder:
        running = []
        for worker in range(workers):
            source, target = (Path(folder) / f"{name}-{worker}.npz" for name in ("task", "results"))
            np.savez(source, **make_task(setting, range(worker, PICTURES, workers)))
            running.append((subprocess.Popen([str(python), str(program), str(source), str(target)]), target))
        for worker, (process, target) in enumerate(running):
            if process.wait():
                raise SystemExit(f"{program.name} ended with {process.returncode}")
            with np.load(target) as part:
                for name, values in found.items():
                    values[worker::workers] = part[name]
    return found


def compare(foolbox: NDArray[np.bool_], ours: NDArray[np.bool_]) -> dict[str, Any]:
    """Returns both numbers of successes, and the p-values of Fisher's and McNemar's exact tests."""
    table = [[int(side.sum()), int((~side).sum())] for side in (foolbox, ours)]
    only_ours, only_theirs = int((ours & ~foolbox).sum()), int((foolbox & ~ours).sum())
    different = only_ours + only_theirs
    return {
        "foolbox": table[0][0],
        "ours": table[1][0],
        "only_foolbox": only_theirs,
        "only_ours": only_ours,
        "fisher": float(fisher_exact(table).pvalue),
        "mcnemar": float(binomtest(only_ours, different).pvalue) if different else 1.0,
    }


def detectable_difference(successes: int, count: int, level: float, power: float) -> float:
    """Returns by how much a second share has to differ so that Fisher's test rejects with a probability of `power`.

    Both shares are of `count` pictures; the first is taken as known, `successes / count`. Pictures are assumed to be
    independent, though both sides attack the same ones. That makes both counts more alike, so the test rejects less
    often than assumed.
    """
    rejected = [
        k for k in range(count + 1) if fisher_exact([[successes, count - successes], [k, count - k]])[1] < level
    ]
    log_choose = [math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) for k in range(count + 1)]
    for points in range(1, 100 - round(100 * successes / count)):
        share = successes / count + points / 100
        logs = (log_choose[k] + k * math.log(share) + (count - k) * math.log1p(-share) for k in rejected)
        if sum(map(math.exp, logs)) >= power:
            return points / 100
    raise ValueError("no difference is large enough")


@contextmanager
def changed(constants: dict[str, Any]) -> Iterator[None]:
    """Gives names in our attack's module other values while the block lasts."""
    before = {name: vars(boundary)[name] for name in constants}
    vars(boundary).update(constants)
    try:
        yield
    finally:
        vars(boundary).update(before)


def main() -> int:
    """Compares both attacks, and prints the figures."""
    asked = _arguments()
    if asked.foolbox:
        record = {setting: _record_of(setting, asked.foolbox, asked.workers) for setting in SETTINGS}
        text = json.dumps(record, indent=1)
        asked.record.write_text(text + "\n", "utf-8") if asked.record else print(text)
    else:
        record = json.loads(asked.check.read_text("utf-8"))
    _report("our attack", record, asked.setting)
    for what, constants in CHANGES.items() if asked.changed else ():
        with changed(constants):
            _report(what, record, ["early"])
    return 0


def _record_of(setting: str, python: Path, workers: int) -> dict[str, Any]:
    found = run_foolbox(python, setting, workers)
    iterations, distance = SETTINGS[setting]
    return {
        "iterations": iterations,
        "distance": distance,
        "successes": "".join("01"[int(each)] for each in found["successes"]),
        "distances": [round(float(each), 4) for each in found["distances"]],
    }


def _report(what: str, record: dict[str, Any], settings: Sequence[str]) -> None:
    for setting in settings:
        theirs = np.array([each == "1" for each in record[setting]["successes"]])
        fooled, nearest = run_ours(make_task(setting))
        neither = ~theirs & ~fooled
        ratio = np.median(nearest[neither] / np.array(record[setting]["distances"])[neither])
        figures = {**compare(theirs, fooled), "neither": int(neither.sum()), "distance_ratio": round(float(ratio), 4)}
        print(f"{what}, {setting}: {json.dumps(figures)}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    side = parser.add_mutually_exclusive_group(required=True)
    side.add_argument("--foolbox", type=Path, help="Python of an environment with foolbox 1.5.0")
    side.add_argument("--check", type=Path, help="a record of foolbox's results")
    parser.add_argument("--workers", type=int, default=2, help="processes of foolbox")
    parser.add_argument("--record", type=Path, help="file for foolbox's results")
    parser.add_argument("--setting", choices=SETTINGS, nargs="+", default=[*SETTINGS], help="what our side plays")
    parser.add_argument("--changed", action="store_true", help="also with constants of our attack changed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
