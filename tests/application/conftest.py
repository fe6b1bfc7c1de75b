"""A small contest in a folder, with a clock that the test sets and players on the process backend."""

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import docker
import numpy as np
import pytest

from orchestrator.application.contests import (
    package_submission,
    promotion,
    season_rounds,
    seasons,
    submission_admission,
)
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.rounds import entry_images, play_rounds
from orchestrator.bundles.receipts import Receipt
from orchestrator.domain import contest_events
from orchestrator.errors import BackendUnavailable
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.stores.base import LedgerEntry
from orchestrator.plugins import load_plugin
from orchestrator.sandboxes.base import BackendSettings
from orchestrator.scoring.results_file import Results
from tests import plain_player, postgresql
from tests.engine_images import has_image

TESTS = Path(__file__).resolve().parents[1]
FAULTY_PLAYER = TESTS / "e2e" / "players" / "player.py"
BASE = "sparring/base:cpu"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOW = play_rounds.RunOptions(backend="process", slots=2, allow_unisolated=True)


@dataclass
class Cup:
    """A contest of eight pictures. A player's name gives its side and behaviour, such as attack_hangs."""

    path: Path
    rules: dict[str, Any] = field(
        default_factory=lambda: {
            "clean_floor": None,
            "initial": {"classifier": "measure", "weights": {"fgsm": 1}},
        }
    )
    time: datetime = NOON
    more: dict[str, Any] = field(default_factory=dict)
    trial_pictures: int = 0
    """0 by default, because a trial match takes as long as a small round and few tests check it."""

    @property
    def folder(self) -> ContestFolder:
        """The contest's folder."""
        return ContestFolder(self.path / "cup")

    def write(self, **rules: Any) -> None:
        """Writes the contest file as JSON, which is also YAML."""
        chance = np.random.default_rng(7)
        labels = np.arange(8) % 4
        images = np.full((8, 4, 4), 100, np.uint8)
        for image, label in zip(images, labels, strict=True):
            row, column = divmod(int(label), 2)
            image[2 * row : 2 * row + 2, 2 * column : 2 * column + 2] += np.uint8(chance.integers(10, 80))
        self.folder.path.mkdir(parents=True, exist_ok=True)
        np.savez(self.folder.path / "quarters.npz", images=images, labels=labels)
        dataset = {"kind": "npz", "path": "quarters.npz"}
        budget = {"norm": "linf", "epsilon": 60}
        entries = {"fgsm": "attack_honest", "measure": "defence_honest"}
        body = {
            "sparring": 1,
            "contest": "cup",
            "title": "A small cup",
            "format": "tournament",
            "tasks": [{"name": name, "dataset": dataset, "budget": budget} for name in ("quarters", "halves")],
            "isolation": "round",
            "limits": {"memory": "512MiB", "ready_seconds": 20, "perturb_batch": 8, "restarts": 0},
            "replay": {"power": 0},
            "trial_pictures": self.trial_pictures,
            "rules": self.rules | rules,
            "baselines": [{"folder": str(self.player(own, called)), "name": called} for called, own in entries.items()],
        }
        self.folder.file.write_text(json.dumps(body | self.more))

    def player(self, kind: str, name: str = "", **manifest: Any) -> Path:
        """Returns a submission's folder; makes it if it does not exist."""
        folder = self.path / "players" / (name or kind)
        folder.mkdir(parents=True, exist_ok=True)
        side, _, behaviour = kind.partition("_")
        for file in plain_player.files(behaviour, FAULTY_PLAYER):
            shutil.copy(file, folder)
        said = {"sparring": 1, "name": name or kind, "side": side, "command": ["python", "player.py", side, behaviour]}
        said |= {"licence": "MIT", "source": "https://example.org"}
        (folder / "submission.yaml").write_text(json.dumps(said | manifest))
        return folder

    def open(self, database: str | None = None) -> "Cup":
        """Writes the contest file, opens the contest, and adds the teams One, Two and Three of one person each."""
        self.write()
        seasons.open_contest(self.folder.path, "desk", self.clock, database=database)
        with self.desk() as desk:
            for team in ("One", "Two", "Three"):
                desk.add_team(team, [contest_events.PersonRecord(id=team.lower(), name=f"P. {team}")])
        return self

    def copy(self, path: Path) -> "Cup":
        """Returns a copy of this contest, which is open, in another folder. Its baselines lie where they were."""
        baselines = json.loads(self.folder.file.read_text())["baselines"]
        copied = replace(deepcopy(self), path=path, more=self.more | {"baselines": baselines})
        postgresql.copy_contest(self.folder.path, copied.folder.path)
        return copied

    def clock(self) -> datetime:
        """Returns the time of day of this contest."""
        return self.time

    def wait(self, **delta: float) -> None:
        """Moves the clock forward."""
        self.time += timedelta(**delta)

    @contextmanager
    def desk(self) -> Iterator[ContestAdmin]:
        """Opens the contest for changes while the block lasts."""
        with seasons.administer(self.folder.path, "desk", self.clock) as desk:
            yield desk

    def submit(self, team: str, folder: Path | None, task: str = "quarters", **more: Any) -> Receipt:
        """Submits a folder for a team and returns the receipt."""
        with self.desk() as desk:
            backend = play_rounds.ready_backend(desk.contest, self.folder.path.resolve(), HOW)
            return submission_admission.submit(
                desk, SubmissionRequest(team=team, task=task, folder=folder, **more), backend
            )

    def play(self, phase: str, task: str | None = "quarters") -> list[Results]:
        """Plays a round."""
        with self.desk() as desk:
            return season_rounds.play_round(desk, phase, HOW, lambda _: None, task)

    def promote(self, task: str = "quarters") -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Promotes submissions to the final round, and returns the attacks and defences."""
        with self.desk() as desk:
            found = promotion.promote(desk, task)[task]
        return tuple(found.attacks), tuple(found.defences)

    def promote_again(self, task: str = "quarters") -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Promotes again, with a reason, after the final round was begun; returns the attacks and defences."""
        with self.desk() as desk:
            found = promotion.promote(desk, task, "somebody left")[task]
        return tuple(found.attacks), tuple(found.defences)

    def entries(self) -> list[LedgerEntry]:
        """Returns the entries of the contest's ledger."""
        ledger = self.folder.ledger()
        try:
            return list(ledger.read())
        finally:
            ledger.close()

    def acts(self, kind: type) -> list[Any]:
        """Returns the events of one type in the contest's ledger."""
        return [entry.event for entry in self.entries() if isinstance(entry.event, kind)]

    def round_entries(self, phase: str, task: str = "quarters") -> list[LedgerEntry]:
        """Returns the entries of a round's ledger."""
        ledger = self.folder.round(phase, task).ledger()
        try:
            return list(ledger.read())
        finally:
            ledger.close()


@pytest.fixture
def empty(tmp_path: Path) -> Cup:
    """A contest that is not opened yet."""
    return Cup(tmp_path)


@pytest.fixture
def cup(empty: Cup) -> Cup:
    """An opened contest with three teams."""
    return empty.open()


@pytest.fixture(scope="session")
def played_once(tmp_path_factory: pytest.TempPathFactory) -> Cup:
    """A contest with an attack and a defence, after its initial round. Tests get copies of it."""
    cup = Cup(tmp_path_factory.mktemp("played")).open()
    cup.submit("One", cup.player("attack_honest"))
    cup.wait(hours=1)
    cup.submit("Two", cup.player("defence_honest"))
    cup.play("initial")
    return cup


@pytest.fixture
def played(played_once: Cup, tmp_path: Path) -> Cup:
    """A contest with an attack and a defence, after its initial round."""
    return played_once.copy(tmp_path)


@pytest.fixture
def trial_cup(empty: Cup) -> Cup:
    """An opened contest with three teams and trial matches."""
    empty.trial_pictures = 10
    return empty.open()


@pytest.fixture
def warmup(empty: Cup) -> Cup:
    """An opened warm-up, whose task has no budget, with three teams and trial matches."""
    dataset = {"kind": "npz", "path": "quarters.npz", "only": ["0", "1"]}
    empty.rules, empty.trial_pictures = {}, 2
    empty.more = {
        "format": "warmup",
        "tasks": [{"name": "quarters", "dataset": dataset}],
        "baselines": [{"folder": str(empty.player("defence_honest", "measure")), "name": "measure"}],
    }
    return empty.open()


@pytest.fixture(scope="module")
def engine(require, tmp_path_factory) -> Iterator[docker.DockerClient]:
    """A client of the Docker engine, which has the players' base image."""
    try:
        load_plugin("sandboxes", "docker")(BackendSettings(tmp_path_factory.mktemp("engine"))).require_available()
    except BackendUnavailable as error:
        require("docker", str(error))
    client = docker.from_env()
    if not has_image(client, BASE):
        require("docker", f"there is no {BASE}: make images")
    yield client
    client.close()


@pytest.fixture
def repository(engine, monkeypatch) -> Iterator[str]:
    """The repository of this test's images, whether built or submitted. All are removed after the test."""
    last_part = f"wiring-{secrets.token_hex(8)}"
    name = f"sparring-test/{last_part}"
    monkeypatch.setattr(package_submission, "REPOSITORY", name)
    yield name
    for tag in names_in(engine, name, f"{entry_images.REPOSITORY}/{last_part}"):  # the latter: built for rounds
        engine.images.remove(tag)


def names_in(engine: docker.DockerClient, *repositories: str) -> set[str]:
    """Returns the tags in some repositories. Their images may also have tags of other tests."""
    images = engine.images.list(filters={"reference": list(repositories)})
    return {tag for image in images for tag in image.tags if tag.startswith(repositories)}
