"""Fixtures for whole rounds: a tiny task, players with given behaviours, and every backend."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator import composition, resources
from orchestrator.application.rounds import play_rounds
from orchestrator.errors import BackendUnavailable
from orchestrator.intake import manifest
from orchestrator.intake.build_record import BuildRecord
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.source_tree import scan_folder
from orchestrator.scoring.results_file import Results
from tests import plain_player
from tests.small_image import BASE, small_base_image

PLAYER = Path(__file__).parent / "players" / "player.py"
SEASON = Path(__file__).resolve().parents[2] / "examples" / "tournament" / "season.py"
IMAGE = f"sparring-test/player-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
"""The repository of each worker's images, because another worker's build would move a shared tag to another image."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


CONTAINERS_IN_SOAK = pytest.mark.parametrize(
    "backend",
    ["process", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.soak])],
    indirect=True,
    scope="module",
)
"""For tests that do not depend on the backend: rounds in containers take minutes of processor time."""


@dataclass
class Lab:
    """Builds and plays small contests. A player's name gives its side and behaviour, such as attack_hangs."""

    folder: Path
    backend: str
    pictures: int = 16
    settings: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=lambda: {"clean_floor": None})
    images: dict[str, str] = field(default_factory=dict)
    player: Path = PLAYER
    slots: int = 2

    def contest(self, *players: str, **changes: Any) -> Path:
        """Writes a contest file with these players, as JSON, which is also YAML; returns its path."""
        np.savez(self.folder / "quarters.npz", **quarters(self.pictures))
        body = {
            "sparring": 1,
            "contest": "lab",
            "title": "Laboratory",
            "format": "tournament",
            "task": {
                "name": "quarters",
                "dataset": {"kind": "npz", "path": "quarters.npz"},
                "budget": {"norm": "linf", "epsilon": 20},
            },
            "isolation": "round",
            "limits": {
                "memory": "512MiB",
                "ready_seconds": 20,
                "perturb_seconds": 1.5,
                "perturb_batch": 8,
                "classify_seconds": 1.0,
                "restarts": 2,
            },
            "rules": self.rules,
            "submissions": [self._entry(player) for player in players],
        }
        for key, value in (self.settings | changes).items():
            body[key] = body[key] | value if isinstance(body.get(key), dict) and key != "rules" else value
        path = self.folder / "contest.yaml"
        path.write_text(json.dumps(body))
        return path

    def play(self, *players: str, out: str = "out", **changes: Any) -> Results:
        """Plays a round between these players and returns its results."""
        path = self.contest(*players, **changes)
        options = play_rounds.RunOptions(backend=self.backend, slots=self.slots, allow_unisolated=True)
        return play_rounds.play_round(Contest(path), self.folder / out, options, lambda _: None).results

    def _entry(self, player: str) -> dict[str, Any]:
        side, _, behaviour = player.partition("_")
        if self.backend != "process":
            return {"image": self._image(side, behaviour), "name": player, "side": side, "team": f"team {behaviour}"}
        folder = self.folder / "players" / player
        folder.mkdir(parents=True, exist_ok=True)
        self._copy_player(behaviour, folder)
        manifest = {"sparring": 1, "name": player, "side": side, "command": ["python", "player.py", side, behaviour]}
        (folder / "submission.yaml").write_text(json.dumps(manifest))
        return {"folder": str(folder), "team": f"team {behaviour}"}

    def _image(self, side: str, behaviour: str) -> str:
        tag = f"{IMAGE}:{side}-{behaviour}"
        command = json.dumps(["python", "/player/player.py", side, behaviour])
        base = small_base_image(numpy=PLAYER in self._files(behaviour))
        recipe = f"FROM {base}\nCOPY *.py /player/\nCMD {command}\n"
        context = Path(tempfile.mkdtemp(dir=self.folder))
        self._copy_player(behaviour, context)
        (context / "Dockerfile").write_text(recipe)
        subprocess.run(
            ["docker", "build", "--quiet", "--network", "none", "--tag", tag, str(context)],
            check=True,
            capture_output=True,
            env={"DOCKER_BUILDKIT": "0", "PATH": PATH} | {k: v for k, v in os.environ.items() if k == "DOCKER_HOST"},
        )
        return tag

    def _files(self, behaviour: str) -> tuple[Path, ...]:
        """Returns a player's files. Only one with a behaviour that no faster player has imports NumPy."""
        if self.player != PLAYER:
            return self.player, plain_player.PROTOCOL
        return plain_player.files(behaviour, PLAYER)

    def _copy_player(self, behaviour: str, folder: Path) -> None:
        for file in self._files(behaviour):
            shutil.copy(file, folder / ("protocol.py" if file == plain_player.PROTOCOL else "player.py"))


def quarters(count: int) -> dict[str, Any]:
    """Returns pictures u8 [count, 4, 4] whose label is their brightest quarter; the first one has a speck."""
    chance = np.random.default_rng(7)
    labels = np.arange(count) % 4
    images = np.full((count, 4, 4), 100, np.uint8)
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 2)
        image[2 * row : 2 * row + 2, 2 * column : 2 * column + 2] += np.uint8(chance.integers(10, 80))
    images[0, 0, 0] = 255
    return {"images": images, "labels": labels}


def _engine_has(image: str) -> bool:
    try:
        return subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture(scope="session")
def base_image(require) -> str:
    """The base image of the tests' players. Without it or an engine, tests in containers are skipped."""
    if not _engine_has(BASE):
        require("docker", f"no engine answers, or it has no {BASE}: run .ci/engine.sh and make images")
    return small_base_image()


@pytest.fixture(scope="session")
def demo_images(base_image, require) -> None:
    """The images of the demo's players."""
    del base_image
    if not _engine_has("sparring/attack-cw-l2:cpu") or not _engine_has("sparring/defence-median:cpu"):
        require("docker", "the demo's images are missing: make images")
    for path in (
        *resources.resource_path("images").glob("*/submission.yaml"),
        *resources.resource_path("examples/demo").glob("*/*/*.yaml"),
    ):
        _note(path.parent)


def _note(folder: Path) -> None:
    """Records that a shipped image was built from its folder, if the image's label says so and no record has it."""
    tag, digest = f"{manifest.read_manifest(folder).image}:cpu", scan_folder(folder).digest
    form = '{{.Id}} {{index .Config.Labels "sparring.source"}}'
    done = subprocess.run(["docker", "image", "inspect", "-f", form, tag], capture_output=True, text=True, check=False)
    identity, _, source = done.stdout.strip().partition(" ")
    if source == digest and not BuildRecord.of_user().image_of(digest, "cpu"):
        BuildRecord.of_user().add(digest, "cpu", identity)


@pytest.fixture
def process_lab(tmp_path: Path) -> Lab:
    """A laboratory on the process backend."""
    return Lab(tmp_path, "process")


@pytest.fixture(
    scope="module",
    params=["process", pytest.param("docker", marks=pytest.mark.docker)],
)
def backend(request: pytest.FixtureRequest, require, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of each backend that this machine has. A module may request others, such as runc."""
    if request.param != "process":
        request.getfixturevalue("base_image")
        try:
            composition.make_backend(request.param, tmp_path_factory.mktemp("backend")).require_available()
        except BackendUnavailable as error:
            require(request.param, f"{error}; .ci/engine.sh starts an engine")
    return str(request.param)


@pytest.fixture
def lab(backend: str, tmp_path: Path) -> Lab:
    """A laboratory on each backend."""
    return Lab(tmp_path, backend)


@pytest.fixture(scope="module")
def shared_lab(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A laboratory on each backend, for rounds that several tests check."""
    return Lab(tmp_path_factory.mktemp("lab"), backend)


@pytest.fixture(scope="session")
def season(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The contest's folder of the season in examples/tournament/, which is played once."""
    out = tmp_path_factory.mktemp("season") / "out"
    done = subprocess.run([sys.executable, str(SEASON), str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    (out / "shown.txt").write_text(done.stdout, "utf-8")
    (out / "said.txt").write_text(done.stderr, "utf-8")
    return out / "cup"
