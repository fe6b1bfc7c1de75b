"""The self-test of cheats: the expectation of each, and a class that plays contests with them."""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict, model_validator

from orchestrator import composition
from orchestrator.application.rounds import play_rounds, round_record
from orchestrator.domain.findings import RULES_BY_KIND, FindingKind
from orchestrator.domain.outcomes import Answers
from orchestrator.domain.tasks import Isolation
from orchestrator.errors import BackendUnavailable
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.yaml_file import YamlFile
from orchestrator.scoring.results_file import FindingPart, Results
from tests.small_image import BASE, small_base_image

FOLDER = Path(__file__).parent
ATTACKER = FOLDER.parent / "e2e" / "players" / "player.py"
ATTACKS = {"attack-noop": "noop", "attack-shift": "honest"}
"""The behaviour of the attacking player for each attack's name in a contest."""
IMAGE = f"sparring-test/cheats-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
REPLAY = {"power": 0.99, "cheat": 0.01, "noise": 0.001}
SLOTS = 6
"""May exceed the number of cores, because an examination mostly waits between questions."""
PICTURES = 600
BUDGET = 20
SOAK = bool(os.environ.get("SPARRING_SOAK"))
CONTAINERS = os.environ.get("SPARRING_TEST_BACKEND", "docker")
"""The backend for programs that play in containers."""
TIES = 2
"""How many pictures are exactly on the honest classifier's decision boundary."""


class Conditions(BaseModel):
    """Settings of the contest file that differ from the defaults so that the cheat has an advantage."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    isolation: Isolation = Isolation.ATTACK
    classify_batch: int = 1
    classify_seconds: float = 10.0
    restarts: int = 10


DEFAULT = Conditions()


class Expectation(BaseModel):
    """One cheat's expect.yaml.

    `share` are limits for the share of its answers in play that differ from the honest classifier's. `container`: it
    uses something of a container, or needs a container's pace. The others keep the state with which they cheat in their
    own process, so they play as processes; with SPARRING_SOAK all play in containers. `shown_by` names the test that
    shows the same in seconds without a process; such a program plays only with SPARRING_SOAK.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    does: str
    why: str
    kind: list[FindingKind] = []
    rules: list[str] = []
    contest: Conditions = DEFAULT
    caught: Literal["replay", "prevented", "honest"] = "replay"
    container: bool = False
    prevented_on: list[str] = []
    share: tuple[float, float] = (0.0, 0.0)
    shown_by: str = ""

    @property
    def outcome(self) -> str:
        """The expected outcome on its backend. Some backends prevent a cheat that others only catch."""
        return "prevented" if self.backend in self.prevented_on else self.caught

    @property
    def backend(self) -> str:
        """The backend on which it plays."""
        return CONTAINERS if self.container or SOAK else "process"

    @model_validator(mode="after")
    def _rightly_named(self) -> "Expectation":
        if (self.caught == "honest") == bool(self.kind):
            raise ValueError("a cheat has a kind, an honest player has none")
        if {rule for kind in self.kind for rule in RULES_BY_KIND[kind]} != set(self.rules):
            raise ValueError(f"the rules of {self.kind} are others than {self.rules}")
        return self


@dataclass(frozen=True)
class Cheat:
    """One hostile program."""

    name: str
    expects: Expectation


@cache
def catalogue() -> tuple[Cheat, ...]:
    """Returns every hostile program, by name."""
    found = sorted(FOLDER.glob("*/expect.yaml"))
    return tuple(Cheat(path.parent.name, YamlFile(path).parse_model(Expectation)) for path in found)


def playing() -> tuple[Cheat, ...]:
    """Returns the programs that play here: without SPARRING_SOAK only those without a quicker test."""
    return tuple(cheat for cheat in catalogue() if SOAK or not cheat.expects.shown_by)


@dataclass(frozen=True)
class Played:
    """A played contest: its results, and every defence's answers [n] by attack."""

    results: Results
    answers: dict[str, dict[str | None, Answers]]

    def findings(self, name: str) -> list[FindingPart]:
        """Returns the findings against a defence."""
        return [finding for finding in self.results.findings if finding.submission == name]

    def share(self, name: str) -> float:
        """Returns the share of a defence's answers in play that differ from those of the honest one."""
        pairs = [(self.answers[name][attack], honest) for attack, honest in self.answers["honest"].items()]
        return float(np.mean([np.mean(answers != honest) for answers, honest in pairs]))

    def cells(self, name: str) -> list[dict[str, Any]]:
        """Returns a defence's cells without its name."""
        return [asdict(replace(cell, defence="")) for cell in self.results.cells if cell.defence == name]


@dataclass
class CheatContests:
    """Plays small contests between hostile programs and two cheap attacks."""

    folder: Path
    played: dict[Any, Played] = field(default_factory=dict)

    def play(
        self,
        names: tuple[str, ...],
        conditions: Conditions = DEFAULT,
        *,
        seed: int = 0,
        backend: str = CONTAINERS,
        slots: int = SLOTS,
    ) -> Played:
        """Returns a contest's outcome; the same one is played once. `seed` goes to the round and to the players."""
        key = (names, conditions, seed, backend, slots)
        if key not in self.played:
            named = hashlib.sha256(repr(key).encode()).hexdigest()[:12]
            self.played[key] = self._play(self.folder / named, *key)  # after a failure it continues there
        return self.played[key]

    def with_its_like(self, cheat: Cheat, seed: int) -> Played:
        """Returns the contest of all programs with the same conditions and backend, and the honest one."""
        conditions, backend = cheat.expects.contest, cheat.expects.backend
        like = [
            other.name for other in playing() if (other.expects.contest, other.expects.backend) == (conditions, backend)
        ]
        return self.play(tuple(sorted({"honest", *like})), conditions, seed=seed, backend=backend)

    def _play(
        self, folder: Path, names: tuple[str, ...], conditions: Conditions, seed: int, backend: str, slots: int
    ) -> Played:
        folder.mkdir(exist_ok=True)
        np.savez(folder / "quarters.npz", **quarters())
        players = {name: ("defence", [str(seed)]) for name in names}
        players |= {name: ("attack", ["attack", told]) for name, told in ATTACKS.items()}
        body = {
            "sparring": 1,
            "contest": "cheats",
            "title": "Contests between cheats",
            "format": "tournament",
            "task": {
                "name": "quarters",
                "dataset": {"kind": "npz", "path": "quarters.npz"},
                "budget": {"norm": "linf", "epsilon": BUDGET},
            },
            "isolation": conditions.isolation.value,
            "limits": {
                "memory": "512MiB",
                "classify_batch": conditions.classify_batch,
                "classify_seconds": conditions.classify_seconds,
                "restarts": conditions.restarts,
            },
            "replay": REPLAY,
            "rules": {"clean_floor": None},
            "submissions": [self._entry(folder, backend, name, *how) for name, how in players.items()],
        }
        path = folder / "contest.yaml"
        path.write_text(json.dumps(body))
        out = folder / "out"
        out.mkdir(exist_ok=True)
        (out / "secret").write_bytes(hashlib.sha256(f"zoo {seed}".encode()).digest())
        options = play_rounds.RunOptions(backend=backend, slots=slots, allow_unisolated=True)
        results = play_rounds.play_round(Contest(path), out, options, lambda _: None).results
        record, _ = round_record.read_round(out)
        answers = {name: record.answers(name, PICTURES) for name in names}
        return Played(results, {name: {c.attack: a for c, a in cells.items()} for name, cells in answers.items()})

    def _entry(self, folder: Path, backend: str, name: str, side: str, words: list[str]) -> dict[str, Any]:
        place = folder / "players" / name
        place.mkdir(parents=True, exist_ok=True)
        sources = [ATTACKER] if side == "attack" else [FOLDER / "_honest.py", FOLDER / name / "player.py"]
        for source in sources:
            shutil.copy(source, place)
        if backend != "process":
            return {"image": _built(place, words), "name": name, "side": side, "team": f"team {name}"}
        manifest = {"sparring": 1, "name": name, "side": side, "command": ["python", "player.py", *words]}
        (place / "submission.yaml").write_text(json.dumps(manifest))
        return {"folder": str(place), "team": f"team {name}"}


def quarters() -> dict[str, Any]:
    """Returns pictures u8 [n, 8, 8] and labels: the brightest quarter, ahead by 7 to 79, in a pattern of their own.

    The attack closes a gap below 40, and an odd one never to a tie. Pixels differ from the brightness of their quarter
    by 25 to 40, half of them up and half of them down, so that two pictures are further apart than two budgets.
    """
    chance = np.random.default_rng(11)
    labels = chance.permutation(np.arange(PICTURES) % 4)
    images = np.empty((PICTURES, 8, 8), np.int64)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        bright = np.full(4, chance.integers(85, 115))
        bright[label] += chance.choice(np.arange(7, 80, 2))
        if number < TIES:
            bright[(label + 1) % 4] = bright[label]
        for quarter in range(4):
            swing = chance.integers(25, 41, 8)
            pattern = chance.permutation(np.concatenate([swing, -swing])).reshape(4, 4)
            row, column = divmod(quarter, 2)
            image[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = bright[quarter] + pattern
    return {"images": images.astype(np.uint8), "labels": labels}


def _built(context: Path, words: list[str]) -> str:
    """Builds a player's image and returns its tag."""
    tag = f"{IMAGE}:{context.name}-{'-'.join(words)}"
    command = json.dumps(["python", "/player/player.py", *words])
    (context / "Dockerfile").write_text(f"FROM {small_base_image(numpy=True)}\nCOPY *.py /player/\nCMD {command}\n")
    subprocess.run(
        ["docker", "build", "--quiet", "--network", "none", "--tag", tag, str(context)],
        check=True,
        capture_output=True,
        env={"DOCKER_BUILDKIT": "0", "PATH": PATH} | {k: v for k, v in os.environ.items() if k == "DOCKER_HOST"},
    )
    return tag


MORE = range(1, 5) if SOAK else ()
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MORE)]
CAUGHT = {"cheat": "replay", "prevented": "prevented", "honest": "honest"}
"""The names by which a test asks for programs, and which those are."""


def _group(cheat: Cheat) -> pytest.MarkDecorator:
    """Returns the mark that keeps tests of the same contests on one worker, which plays each contest once."""
    return pytest.mark.xdist_group(f"cheats-{cheat.expects.backend}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives a test every program of the kind that it asks for, and every seed."""
    for name in CAUGHT.keys() & set(metafunc.fixturenames):
        cheats = [cheat for cheat in playing() if cheat.expects.outcome == CAUGHT[name]]
        metafunc.parametrize(name, [pytest.param(cheat, marks=_group(cheat), id=cheat.name) for cheat in cheats])
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", SEEDS, ids=lambda seed: f"seed{seed}")


@pytest.fixture(scope="session")
def programs() -> tuple[Cheat, ...]:
    """Every hostile program, by name."""
    return catalogue()


@pytest.fixture(scope="session")
def program() -> Callable[[str], Cheat]:
    """Returns the program of a name."""
    return {cheat.name: cheat for cheat in catalogue()}.__getitem__


@pytest.fixture(scope="session")
def contests(tmp_path_factory: pytest.TempPathFactory, require) -> CheatContests:
    """Plays contests between cheats."""
    folder = tmp_path_factory.mktemp("cheats")
    try:
        composition.make_backend(CONTAINERS, folder).require_available()
    except BackendUnavailable as error:
        require(CONTAINERS, f"{error}; .ci/engine.sh starts one")
    if subprocess.run(["docker", "image", "inspect", BASE], capture_output=True, check=False).returncode:
        require("docker", f"the engine has no {BASE}: make images")
    return CheatContests(folder)
