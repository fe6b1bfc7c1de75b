"""On docker every entry with a folder plays what was built from that folder, whatever names and labels say."""

import json
import shutil

import numpy as np
import pytest

from orchestrator.application.rounds import entry_images, play_rounds
from orchestrator.application.rounds.entry_images import REPOSITORY
from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.errors import Rejected
from orchestrator.intake import admission, image_build
from orchestrator.intake.build_record import BuildRecord
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.image_build import SOURCE_LABEL, ImageBuildOptions
from orchestrator.intake.source_tree import scan_folder
from orchestrator.plugins import load_plugin
from orchestrator.sandboxes.base import BackendSettings
from tests.e2e.conftest import PLAYER, quarters

from .conftest import BASE

pytestmark = pytest.mark.docker


@pytest.fixture
def backend(engine, tmp_path):
    """The docker backend."""
    del engine
    return load_plugin("sandboxes", "docker")(BackendSettings(tmp_path))


@pytest.fixture
def folder(tmp_path, repository):
    """Returns a function that makes a player's folder whose manifest names an image."""

    def make(name: str, side: str, behaviour: str, image: str = ""):
        made = tmp_path / "players" / name
        made.mkdir(parents=True)
        shutil.copy(PLAYER, made / "player.py")
        command = ["python", "player.py", side, behaviour]
        body = {"sparring": 1, "name": name, "side": side, "command": command, "image": f"{repository}:{image or name}"}
        (made / "submission.yaml").write_text(json.dumps(body))
        recipe = f"FROM {BASE}\nCOPY player.py /player/\nWORKDIR /player\nCMD {json.dumps(command)}\n"
        (made / "Dockerfile").write_text(recipe)
        return made

    return make


@pytest.fixture
def contest(tmp_path):
    """Returns a function that writes a contest file with these folders and returns it."""

    def write(*folders, baselines=()):
        np.savez(tmp_path / "quarters.npz", **quarters(8))
        body = {
            "sparring": 1,
            "contest": "copies",
            "title": "Copies",
            "format": "tournament",
            "task": {
                "name": "quarters",
                "dataset": {"kind": "npz", "path": "quarters.npz"},
                "budget": {"norm": "linf", "epsilon": 20},
            },
            "isolation": "round",
            "replay": {"power": 0},
            "limits": {"memory": "512MiB", "ready_seconds": 60, "perturb_seconds": 60, "classify_seconds": 60},
            "rules": {"clean_floor": None},
            "baselines": [{"folder": str(each)} for each in baselines],
            "submissions": [{"folder": str(each)} for each in folders],
        }
        path = tmp_path / "contest.yaml"
        path.write_text(json.dumps(body))
        return path

    return write


def held(results) -> dict[str, int]:
    """Returns how many clean pictures each defence got right."""
    return {cell.defence: cell.held for cell in results.cells if cell.attack is None}


def test_a_copy_plays_its_own_code(engine, folder, contest, tmp_path, repository) -> None:
    """The engine has an honest image of the name that a copy's manifest names; the copy, which never answers, plays."""
    honest = folder("honest", "defence", "honest")
    attack = folder("noop", "attack", "noop")
    original = image_build.prepare_build(honest, ImageBuildOptions()).recipe
    identity = (
        load_plugin("sandboxes", "docker")(BackendSettings(tmp_path)).image_store().build(original, lambda _: None)
    )
    copy = folder("copy", "defence", "dies_loading", image="honest")
    path = contest(attack, copy)

    results = play_rounds.play_round(Contest(path), tmp_path / "out", RunOptions("docker", 1), lambda _: None).results

    assert held(results) == {"copy": 0}
    assert engine.images.get(f"{repository}:honest").id == identity
    assert [part.status for part in results.submissions if part.id == "copy"] == ["faulted"]


def test_an_unchanged_folder_is_built_once(engine, backend, folder, contest, tmp_path, monkeypatch) -> None:
    """Admission finds the build again by the digest of the files; a changed file is built anew, under its own name."""
    player = folder("player", "defence", "honest")
    path = contest(player)
    builds = []
    workshop = type(backend.image_store())
    really = workshop.build
    monkeypatch.setattr(
        workshop, "build", lambda self, recipe, log: builds.append(recipe.tag) or really(self, recipe, log)
    )
    admit = lambda: admission.admit_entries(  # noqa: E731
        Contest(path), entry_images.admitter_with_builds(backend, tmp_path / "out"), complete=False
    ).roster["player"]
    first, again = admit(), admit()
    assert first == again
    assert len(builds) == 1
    assert builds[0].startswith(f"{REPOSITORY}/")
    assert (tmp_path / "out" / "builds").is_dir()
    (player / "notes.txt").write_text("more")
    changed = admit()
    assert len(builds) == 2
    assert changed.digest != first.digest
    assert engine.images.get(first.digest).labels[SOURCE_LABEL] != scan_folder(player).digest


def test_a_label_and_a_name_prove_nothing(engine, backend, folder, contest, tmp_path, repository) -> None:
    """An image that bears the folder's name and the digest of its files is not played: the folder is built."""
    player = folder("player", "defence", "honest")
    liar = tmp_path / "liar"
    liar.mkdir()
    label = f"LABEL {SOURCE_LABEL}={scan_folder(player).digest}\n"
    (liar / "Dockerfile").write_text(f'FROM {BASE}\n{label}CMD ["python3"]\n')
    forged, _ = engine.images.build(path=str(liar), tag=f"{repository}:player", rm=True)
    found = admission.admit_entries(
        Contest(contest(player)), entry_images.admitter_with_builds(backend, tmp_path), complete=False
    )
    assert found.roster["player"].digest != forged.id
    assert BuildRecord.of_user().image_of(scan_folder(player).digest, "cpu") == found.roster["player"].digest


def test_nothing_is_built_to_foretell(backend, folder, contest) -> None:
    """What would be built stands for itself, by the digest of its files."""
    player = folder("player", "defence", "honest")
    found = admission.admit_entries(
        Contest(contest(player)), entry_images.admitter_without_builds(backend), complete=False
    )
    assert found.roster["player"].digest == scan_folder(player).digest
    assert BuildRecord.of_user().image_of(scan_folder(player).digest, "cpu") == ""


def test_a_folder_that_cannot_be_built_is_refused_with_its_log(backend, folder, contest, tmp_path) -> None:
    """The problem stands at the entry's line, with the last words of the builder and where all of them are."""
    player = folder("player", "defence", "honest")
    (player / "Dockerfile").write_text(f"FROM {BASE}\nRUN echo no luck && exit 3\n")
    path = contest(player)
    with pytest.raises(Rejected) as caught:
        admission.admit_entries(
            Contest(path), entry_images.admitter_with_builds(backend, tmp_path / "out"), complete=False
        )
    assert "no luck" in (tmp_path / "out" / "builds").rglob("*.log").__next__().read_text()
    assert all("submissions[0]" in problem.place for problem in caught.value.problems)
