"""Measures what replays achieve and cost: catch rates, honest runs, and shares of questions and of seconds.

    python bench/replay.py [--runs 200] [--part catch|classes|accuse|stall|honest|plan|rounds|isolation] [--data FOLDER]

- catch: a cheat that changes exactly 1 % of its answers and is not random, against the planned power.
- classes: each class of cheat at about 1 %: how often it has a mismatch, is accused and is named correctly.
- accuse: cheats by chance or by a number drawn at the start, of several sizes: how often they are accused, against the
  promised probability.
- stall: cheats that stall when they recognize an examination: how often they are accused.
- honest: runs of honest classifiers, slow, noisy and faulty ones among them: none may be accused.
- plan: planned questions as a share of the questions in play, at the default power.
- rounds: seconds of replay as a share of seconds of classification in real rounds on the process backend.
- isolation: what each isolation level costs in sandboxes and seconds.

The first five play in this process (tests/integrity/laboratory.py) and are seeded: the same command prints the same.
The last two are ratios within one run. The CIFAR-10 round uses the pictures of the tests: SPARRING_SHARED_DATA, or
--data; without them that round is left out.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "integrity")]

import experiments  # noqa: E402  from tests/integrity
import fair  # noqa: E402  from tests/integrity
import players  # noqa: E402  from tests/integrity
import refusers  # noqa: E402  from tests/integrity
from laboratory import Gallery, Laboratory, Late  # noqa: E402  from tests/integrity
from scipy.stats import binom, hypergeom  # noqa: E402

from orchestrator import logs, resources  # noqa: E402
from orchestrator.application.rounds import play_rounds  # noqa: E402
from orchestrator.domain import events  # noqa: E402
from orchestrator.domain.plan import Stage  # noqa: E402
from orchestrator.intake.contest_file import Contest  # noqa: E402
from orchestrator.integrity import detection_power  # noqa: E402
from orchestrator.integrity.detection_power import SamplingDesign  # noqa: E402
from orchestrator.integrity.replay_session import SessionPurpose  # noqa: E402

POWERS = (0.5, 0.9, 0.99)
SIZES = (500, 1000, 2000, 5000, 10_000, 50_000)
CELLS = 10
"""Clean pictures and nine attacks."""
LEVEL = 0.95
LEVELS = ("round", "attack", "picture")
PLANNED = {SessionPurpose.SHUFFLED, SessionPurpose.SAME_ORDER, SessionPurpose.SINGLE}


def table(title: str, head: Iterable[object], rows: Iterable[Iterable[object]]) -> None:
    """Prints a Markdown table."""
    names = [str(cell) for cell in head]
    print(f"\n### {title}\n\n| {' | '.join(names)} |\n|{' --- |' * len(names)}")
    for row in rows:
        print(f"| {' | '.join(str(cell) for cell in row)} |", flush=True)


def catch(runs: int) -> None:
    """Prints how often a cheat of exactly 1 % was caught."""

    def lines() -> Iterable[list[object]]:
        for trial in (experiments.ATTACK, experiments.ROUND, experiments.CLEAN):
            for planned in POWERS:
                verdicts = [trial.run(planned, seed) for seed in range(runs)]
                caught = sum(verdict.accusation is not None for verdict in verdicts)
                low, high = (int(limit) for limit in binom.interval(LEVEL, runs, planned))
                drawn, questions = verdicts[0].coverage.drawn, verdicts[0].coverage.questions
                exact = float(hypergeom.sf(0, questions, trial.changed, drawn))
                inside = "above" if caught > high else "inside" if caught >= low else "BELOW"
                sessions = sum(len(verdict.trace.sessions) for verdict in verdicts) / runs
                yield [
                    trial.name,
                    f"{trial.changed} of {questions}",
                    planned,
                    drawn,
                    f"{exact:.4f}",
                    f"{caught} of {runs}",
                    f"{low} to {high}",
                    inside,
                    f"{sessions:.1f}",
                ]

    head = ("contest", "changed", "planned power", "drawn", "exact power", "caught", "95 % interval", "is", "sandboxes")
    table("Catch rate of a 1 % cheat that is not random", head, lines())


def classes(runs: int) -> None:
    """Prints how often each class of cheat mismatches, is accused and is rightly named, in a quarter of the runs."""
    runs = -(-runs // 4)

    def lines() -> Iterable[list[object]]:
        for each in experiments.CLASSES:
            for planned in POWERS:
                done = [each.run(planned, seed) for seed in range(runs)]
                verdicts = [verdict for verdict, _ in done]
                accused = [verdict.accusation for verdict in verdicts if verdict.accusation is not None]
                yield [
                    each.name,
                    f"{sum(share for _, share in done) / runs:.2%}",
                    planned,
                    f"{sum(bool(v.coverage.mismatches or v.coverage.noise) for v in verdicts) / runs:.1%}",
                    f"{len(accused) / runs:.1%}",
                    f"{sum(found.kind in each.named for found in accused) / max(1, len(accused)):.1%}",
                    f"{sum(found.proof is not None for found in accused) / max(1, len(accused)):.0%}",
                    f"{sum(len(verdict.trace.sessions) for verdict in verdicts) / runs:.1f}",
                ]

    head = (
        "class",
        "changed in play",
        "planned power",
        "clashed",
        "accused",
        "rightly named",
        "by a proof",
        "sandboxes",
    )
    table(f"Classes of cheats at about 1 %, {runs} runs each", head, lines())


def accuse(runs: int) -> None:
    """Prints how often cheats without a sequence are accused, against the promise, in a quarter of the runs."""
    runs, rows = -(-runs // 4), []
    for cheat in (0.01, 0.005, 0.002):
        for name, kind in (("chance", players.chance), ("start", players.environment)):
            design = SamplingDesign(cheat=cheat)
            verdicts = [
                Laboratory(kind(round(1 / cheat)), Gallery.drawn(seed, cells=4), seed, design=design).judge()
                for seed in range(runs)
            ]
            drawn = verdicts[0].coverage.drawn
            promise = detection_power.detection_power(2000, drawn, design)
            clashed = sum(bool(verdict.mismatches) for verdict in verdicts)
            accused = sum(verdict.accusation is not None for verdict in verdicts)
            promised = promise.chance if name == "chance" else promise.start
            row = [name, f"{cheat:.1%}", drawn, f"{promise.mismatch:.3f}", f"{clashed} of {runs}"]
            rows.append([*row, f"{promised:.3f}", f"{accused} of {runs}"])
    head = ("cheat", "changes", "drawn", "promised: clash", "clashed", "promised: accused", "accused")
    table("Cheats that leave no sequence, 2,000 questions", head, rows)


def stall(runs: int) -> None:
    """Prints how often cheats that stall when they recognize an examination are accused, in a quarter of the runs."""
    runs, rows = -(-runs // 4), []
    stallers = {
        "in bursts": lambda cheat: refusers.shy(cheat, Late),
        "in bursts and where cells mix": lambda cheat: refusers.mixing(refusers.shy(cheat, Late), Late),
        "at a second version": lambda cheat: players.detecting(cheat, Late),
    }
    cheats = {
        "chance, 10 %": players.chance(10),
        "chance, 1 %": players.chance(100),
        "counter, 1 %": players.counter(100),
    }
    for stalls, wrapped in stallers.items():
        for name, cheat in cheats.items():
            verdicts = [Laboratory(wrapped(cheat), Gallery.drawn(seed), seed).judge() for seed in range(runs)]
            kinds = Counter(verdict.accusation.kind.value for verdict in verdicts if verdict.accusation is not None)
            named = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
            least = min(verdict.coverage.achieved for verdict in verdicts)
            rows.append([stalls, name, f"{kinds.total()} of {runs}", named, f"{least:.3f}"])
    head = ("stalls", "cheats by", "accused", "of", "least power achieved")
    table("Cheats that stall, 1,500 questions", head, rows)


def honest(runs: int) -> None:
    """Prints how often honest classifiers were accused."""
    everybody = (*experiments.HONEST, *fair.FAIR)
    each = -(-runs // 10)
    total, rows = Counter[str](), []
    for one in everybody:
        verdicts = [one.run(seed) for seed in range(each)]
        accused = sum(verdict.accusation is not None for verdict in verdicts)
        disagreed = sum(bool(verdict.coverage.mismatches or verdict.coverage.noise) for verdict in verdicts)
        total.update(runs=each, accused=accused)
        least = min(verdict.coverage.achieved for verdict in verdicts)
        rows.append([one.name, each, disagreed, accused, f"{least:.3f}"])
    rows.append(["all", total["runs"], "", total["accused"], ""])
    head = ("classifier", "runs", "runs with a disagreement", "accused", "least power achieved")
    table("Honest classifiers", head, rows)


def plan(_runs: int) -> None:
    """Prints the number of planned questions at the default power."""
    rows = []
    for questions in SIZES:
        cost = detection_power.replay_cost(questions, questions // CELLS, SamplingDesign())
        changed = detection_power.changed_answer_count(questions, SamplingDesign().cheat)
        companions = cost.clean_first
        row = [f"{questions:,}", changed, cost.drawn, companions, cost.repeated, cost.same_order, f"{cost.asked:,}"]
        rows.append([*row, f"{cost.share:.1%}", cost.sandboxes])
    head = ("questions", "1 % is", "drawn", "companions, at most", "again", "twin", "asked", "share", "sandboxes")
    table(f"Planned at the default power 0.99, {CELLS} cells, isolation `attack`", head, rows)


@dataclass
class Tally:
    """The steps of one kind: the player's seconds of work, the sandboxes, and their seconds from start to end."""

    seconds: float = 0.0
    sandboxes: int = 0
    lived: float = 0.0

    def add(self, step: events.StepFinished) -> None:
        """Counts a step."""
        self.seconds += step.seconds
        self.sandboxes += len(step.sandboxes)
        self.lived += sum(box.wall_seconds for box in step.sandboxes)

    @property
    def apart(self) -> float:
        """The seconds of starting, loading and ending."""
        return self.lived - self.seconds


@dataclass
class Watched:
    """Counts a round's steps of classification, planned replays and confirmations of a suspicion, by defence."""

    play: dict[str, Tally] = field(default_factory=dict)
    planned: dict[str, Tally] = field(default_factory=dict)
    confirming: dict[str, Tally] = field(default_factory=dict)
    judged: dict[str, events.ReplayJudged] = field(default_factory=dict)
    wall: float = 0.0

    def __call__(self, event: events.Event) -> None:
        """Reads one event."""
        if isinstance(event, events.ReplayJudged):
            self.judged[event.submission] = event
        if not isinstance(event, events.StepFinished):
            return
        if event.stage is Stage.CLASSIFY:
            self.play.setdefault(event.submission, Tally()).add(event)
        elif event.stage is Stage.REPLAY and event.session is not None:
            where = self.planned if event.session.purpose in PLANNED else self.confirming
            where.setdefault(event.submission, Tally()).add(event)


def played(body: dict[str, Any]) -> Watched:
    """Plays a contest on the process backend, one job at a time, and returns the counts."""
    seen = Watched()
    with tempfile.TemporaryDirectory(prefix="sparring-bench-") as name:
        path = Path(name) / "contest.yaml"
        path.write_text(json.dumps(body))
        began = time.perf_counter()
        options = play_rounds.RunOptions(backend="process", slots=1, allow_unisolated=True)
        play_rounds.play_round(Contest(path), Path(name) / "out", options, seen)
        seen.wall = time.perf_counter() - began
    return seen


def contest(dataset: dict[str, Any], epsilon: int, entries: list[dict[str, Any]], **more: object) -> dict[str, Any]:
    """Returns a contest file."""
    task = {"name": "bench", "dataset": dataset, "budget": {"norm": "linf", "epsilon": epsilon}}
    head = {"sparring": 1, "contest": "bench", "title": "What replays cost", "format": "tournament", "task": task}
    return head | {"rules": {"clean_floor": None}, "submissions": entries} | more


def attacks(count: int) -> list[dict[str, Any]]:
    """Returns cheap attacks. Their pictures are asked about like any others."""
    folder = str(resources.resource_path("images", "attack_noise"))
    return [{"folder": folder, "name": f"noise{number}", "team": "bench"} for number in range(count)]


def digits(first: int) -> dict[str, Any]:
    """Returns the demo's pictures."""
    return {"kind": "digits", "split": "test", "first": first}


def in_rounds(data: Path) -> None:
    """Prints seconds of replay as a share of seconds of classification."""
    demo = resources.resource_path("examples", "demo", "submissions")
    places = [
        resources.resource_path("images", "defence_undefended"),
        demo / "defence_neighbours",
        demo / "defence_median",
    ]
    defences = [{"folder": str(place), "team": "bench"} for place in places]
    found = [("digits, 200 pictures x 10 cells", played(contest(digits(200), 51, [*attacks(9), *defences])))]
    if (data / "cifar10" / "eval1000.npz").exists():
        with tempfile.TemporaryDirectory(prefix="sparring-bench-") as name:
            folder = Path(name) / "reference"
            shutil.copytree(resources.resource_path("images", "defence_undefended"), folder)
            weights = data / "cifar10" / "models" / "cifar_resnet_clean.safetensors"
            shutil.copy(weights, folder / "weights.safetensors")
            pictures = {"kind": "npz", "path": str(data / "cifar10" / "eval1000.npz")}
            entries = [*attacks(9), {"folder": str(folder), "name": "reference", "team": "bench"}]
            found.append(("CIFAR-10, 1000 pictures x 10 cells", played(contest(pictures, 8, entries))))
    else:
        print(f"\nNo pictures in {data}: the CIFAR-10 round is left out.")
    rows = []
    for where, seen in found:
        for name, play in seen.play.items():
            judged, replay = seen.judged[name], seen.planned[name]
            row = [where, name, f"{judged.questions:,}", f"{judged.asked:,}", f"{judged.asked / judged.questions:.1%}"]
            row += [f"{play.seconds:.1f}", f"{replay.seconds:.1f}", f"{replay.seconds / play.seconds:.1%}"]
            row += [f"{play.sandboxes} / {replay.sandboxes}", f"{play.apart:.1f} / {replay.apart:.1f}"]
            rows.append([*row, seen.confirming.get(name, Tally()).sandboxes, f"{judged.achieved:.4f}"])
    head = ["round", "defence", "questions", "asked again", "share", "classification, s", "replay, s", "share"]
    head += ["sandboxes: play / replay", "their start and end, s", "confirming sandboxes", "power achieved"]
    table("Replay in real rounds, process backend, isolation `attack`", head, rows)


def isolation(_data: Path) -> None:
    """Prints what each isolation level costs, without replays."""
    entries = [*attacks(3), {"folder": str(resources.resource_path("images", "defence_undefended")), "team": "bench"}]
    found = {level: played(contest(digits(25), 51, entries, isolation=level, replay={"power": 0})) for level in LEVELS}
    least = found[LEVELS[0]].wall
    rows = []
    for level, seen in found.items():
        (own,) = seen.play.values()
        seconds = (f"{own.seconds:.2f}", f"{own.apart:.1f}", f"{seen.wall:.1f}", f"{seen.wall / least:.1f}")
        rows.append([f"`{level}`", own.sandboxes, *seconds])
    head = ("isolation", "sandboxes", "answering, s", "their start and end, s", "the whole round, s", "against `round`")
    table("Isolation levels: one defence, 25 digits x 4 cells", head, rows)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("SPARRING_SHARED_DATA", ROOT.parent / "shared/data"))
    )
    inside: dict[str, Callable[[int], None]] = {
        "catch": catch,
        "classes": classes,
        "accuse": accuse,
        "stall": stall,
        "honest": honest,
        "plan": plan,
    }
    outside: dict[str, Callable[[Path], None]] = {"rounds": in_rounds, "isolation": isolation}
    parser.add_argument("--part", action="append", choices=[*inside, *outside], help="only this; may be repeated")
    asked = parser.parse_args()
    logs.configure_logging(quiet=True)
    for name in asked.part or [*inside, *outside]:
        if name in inside:
            inside[name](asked.runs)
        else:
            outside[name](asked.data)


if __name__ == "__main__":
    main()
