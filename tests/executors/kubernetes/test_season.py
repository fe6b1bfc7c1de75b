"""A season whose desk is a Docker engine and whose rounds are played on a cluster; and its findings, shown on docker.

The engine and what it pushes are real; the cluster's pods are processes, started in the folder from which the image
that they would pull was built.
"""

import json
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from orchestrator import composition
from orchestrator.application.contests import season_rounds, seasons, submission_admission
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.kubernetes import push_images
from orchestrator.application.publishing import bundles
from orchestrator.application.rounds import play_rounds, round_record
from orchestrator.cli.app import app
from orchestrator.domain import contest_events
from orchestrator.domain.findings import Finding
from orchestrator.domain.submissions import Side
from orchestrator.errors import Rejected
from tests.e2e.conftest import PLAYER, base_image, quarters
from tests.oci.fake_registry import Registry
from tests.small_image import small_base_image

from .contest_on_cluster import Stage, staged

__all__ = ["base_image"]
pytestmark = [pytest.mark.docker, pytest.mark.soak]
PLAYERS = ("attack_honest", "defence_honest", "defence_counter")
ENTERED = {"One": "attack_honest", "Two": "defence_counter", "Three": "defence_honest"}


def docker(*words: str, check: bool = True) -> str:
    """Runs the engine's own client."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def sparring(*words: object) -> Any:
    """Runs one command in this process."""
    return CliRunner().invoke(app, [str(word) for word in words])


class Season:
    """The stage with a contest in the folder that the claim shows, and its images."""

    def __init__(self, stage: Stage, registry: Registry) -> None:
        self.stage, self.registry = stage, registry
        self.path = stage.there
        self.mark = secrets.token_hex(4)
        self.folders = {name: self._folder(name) for name in PLAYERS}
        self.how = play_rounds.RunOptions(executor="kubernetes", cluster=stage.on)

    def tag(self, name: str) -> str:
        """Returns what the engine calls a player."""
        return f"sparring-test/season-{self.mark}:{name.replace('_', '-')}"

    def _folder(self, name: str) -> Path:
        """Returns the folder of a player, of which an image was built."""
        side, _, behaviour = name.partition("_")
        folder = self.stage.folder / "players" / name
        folder.mkdir(parents=True)
        shutil.copy(PLAYER, folder / "player.py")
        command = json.dumps(["python", "player.py", side, behaviour])
        base = small_base_image(numpy=True)
        (folder / "Dockerfile").write_text(
            f"FROM {base}\nLABEL test={self.mark}\nWORKDIR /player\nCOPY player.py .\nCMD {command}\n"
        )
        subprocess.run(
            ["docker", "build", "--quiet", "--network", "none", "--tag", self.tag(name), str(folder)],
            check=True,
            capture_output=True,
        )
        return folder

    def open(self) -> None:
        """Opens the contest: a baseline of each side, the defence a cheat; and three teams with a submission each."""
        self.path.mkdir()
        np.savez(self.path / "quarters.npz", **quarters(16))
        baselines = [("ours", "attack_honest", "attack"), ("watched", "defence_counter", "defence")]
        body = {
            "sparring": 1,
            "contest": "cup",
            "title": "A cup on a cluster",
            "format": "tournament",
            "tasks": [
                {
                    "name": "quarters",
                    "dataset": {"kind": "npz", "path": "quarters.npz"},
                    "budget": {"norm": "linf", "epsilon": 60},
                }
            ],
            "isolation": "attack",
            "limits": {"memory": "256MiB", "classify_seconds": 5, "perturb_seconds": 20, "ready_seconds": 60},
            "replay": {"power": 0.99, "cheat": 0.3},
            "rules": {"clean_floor": None, "initial": {"classifier": "watched", "weights": {"ours": 1}}},
            "baselines": [{"image": self.tag(kind), "name": name, "side": side} for name, kind, side in baselines],
            "cluster": {
                "registry": f"{self.registry.host}/season",
                "insecure_registries": [self.registry.host],
                "max_jobs": 3,
                "runner": self.tag("attack_honest"),
            },
        }
        (self.path / "contest.yaml").write_text(json.dumps(body))
        seasons.open_contest(self.path, "desk")
        with seasons.administer(self.path, "desk") as desk:
            for team, kind in ENTERED.items():
                desk.add_team(team, [contest_events.PersonRecord(id=team.lower(), name=team)])
                backend = play_rounds.ready_backend(desk.contest, self.path, play_rounds.RunOptions(backend="docker"))
                side, _, name = kind.partition("_")
                request = SubmissionRequest(
                    team, "quarters", image=self.tag(kind), name=f"{name}-{side}", side=Side(side)
                )
                submission_admission.submit(desk, request, backend)

    def push(self) -> dict[str, push_images.PushResult]:
        """Pushes what the registry lacks, and gives the cluster's nodes what they would pull."""
        settings, listed = push_images.required_images(self.path)
        engine = composition.make_backend("docker", self.stage.folder)
        done = {each.owner: each for each in push_images.push_missing(settings, listed, engine)}
        by_id = {docker("image", "inspect", "--format", "{{.Id}}", self.tag(name)).strip(): name for name in PLAYERS}
        by_id |= {self.tag(name): name for name in PLAYERS}
        for each in done.values():
            self.stage.images[each.reference.rpartition("@")[2]] = self.folders[by_id[each.image]]
        return done

    def play(self) -> list:
        """Plays the initial round on the cluster."""
        with seasons.administer(self.path, "desk") as desk:
            return season_rounds.play_round(desk, "initial", self.how, lambda _: None)

    def clear(self) -> None:
        """Takes every name of the images from the engine, and so the images."""
        found = docker("images", "--quiet", "--no-trunc", "--filter", f"label=test={self.mark}").split()
        if found:
            docker("rmi", "--force", *sorted(set(found)))


@pytest.fixture
def season(require, base_image) -> Iterator[Season]:
    """A season that is open, with three received submissions."""
    with staged(require) as stage, Registry().running() as registry:
        made = Season(stage, registry)
        try:
            made.open()
            yield made
        finally:
            made.clear()


def findings(season: Season) -> dict[str, Finding]:
    """Returns the findings of the round, by whom they are against."""
    record, _ = round_record.read_round(season.path / "rounds" / "initial" / "quarters")
    return {finding.submission: finding for finding in record.round.findings}


def replay(season: Season, finding: Finding, *more: str) -> Any:
    """Plays a finding again."""
    return sparring("replay", finding.id, "--dir", season.path / "rounds" / "initial" / "quarters", *more)


def test_a_season_is_received_on_docker_and_played_on_a_cluster(season) -> None:
    """What is not pushed is named; what played has the identity of its receipt; findings show on docker; it holds."""
    with pytest.raises(Rejected) as caught:
        season.play()
    assert "sparring cluster push" in str(caught.value)
    assert {each.state.value for each in season.push().values()} == {"pushed"}
    assert {each.state.value for each in season.push().values()} == {"present"}
    with seasons.administer(season.path) as desk:
        [outlook] = season_rounds.preview_round(desk, "initial", season.how)
    assert outlook.slots == 3
    assert sum(stage.jobs for stage in outlook.stages) > 0
    [results] = season.play()
    assert results.complete
    assert results.backend == "kubernetes"
    assert season.stage.cleared() == {}
    receipts = {path.stem: json.loads(path.read_text())["digest"] for path in (season.path / "receipts").iterdir()}
    played = {each.id: each.image for each in results.submissions if not each.baseline}
    assert played == receipts
    identities = {docker("image", "inspect", "--format", "{{.Id}}", season.tag(name)).strip() for name in PLAYERS}
    assert set(played.values()) == identities
    assert {each.image for each in results.submissions if each.baseline}.isdisjoint(identities)
    found = findings(season)
    assert found.keys() == {"watched", "counter-defence"}
    with seasons.administer(season.path) as desk:
        bundle = bundles.publish_bundle(desk, season.stage.folder / "bundle", "full", unfinished=True).path
        assert bundles.verify_bundle_or_receipt(bundle, desk.folder.key().fingerprint)
    _is_shown_again(season, found)


def _is_shown_again(season: Season, found: dict[str, Finding]) -> None:
    """On this machine's engine, by id and by the manifest's digest; what is gone is pulled as the message says."""
    for finding in found.values():
        done = replay(season, finding, "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["backend"] == "docker"
    other = replay(season, found["watched"], "--backend", "process")
    assert other.exit_code == 2
    assert "was played on kubernetes" in " ".join(other.stderr.split())
    season.clear()
    for finding in found.values():
        gone = replay(season, finding)
        assert gone.exit_code == 2
        said = re.search(r"`docker pull (\S+)`;", " ".join(gone.stderr.split()))
        assert said, gone.stderr
        docker("pull", said[1])
        try:
            shown = replay(season, finding, "--backend", "docker")
        finally:
            docker("rmi", "--force", said[1])
        assert shown.exit_code == 0, shown.output
