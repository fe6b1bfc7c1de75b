"""Every baseline and demo submission is a complete folder."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from orchestrator.intake.manifest import read_manifest

ROOT = Path(__file__).parents[2]
BASELINES = sorted(path.parent for path in ROOT.glob("images/*/submission.yaml"))
DEMO = sorted(path.parent for path in ROOT.glob("examples/demo/submissions/*/submission.yaml"))
FOLDERS = BASELINES + DEMO
NOT_IN_THE_IMAGE = {"Dockerfile", "README.md", "submission.yaml", "requirements.lock"}
EACH_FOLDER = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
DOCKERFILES = sorted([*ROOT.glob("images/_base/*.Dockerfile"), *(folder / "Dockerfile" for folder in FOLDERS)])


def test_the_usual_baselines_are_there():
    """The attacks and defences that the contests name are there, and three ordinary ones of each side in the demo."""
    assert {folder.name for folder in BASELINES} >= {
        "attack_noop",
        "attack_noise",
        "attack_fgsm",
        "attack_bim",
        "attack_pgd",
        "attack_cw_l2",
        "defence_undefended",
        "defence_fgsm_trained",
        "defence_bit_depth",
    }
    assert [folder.name.partition("_")[0] for folder in DEMO] == ["attack"] * 3 + ["defence"] * 3


@EACH_FOLDER
def test_manifest_fits_its_folder(folder):
    """Name, side and image follow from the folder's name; the licence is ours."""
    manifest = read_manifest(folder)
    assert f"{manifest.side}_{manifest.name}" == folder.name
    assert manifest.image == "sparring/" + folder.name.replace("_", "-")
    assert manifest.licence == "Apache-2.0"
    assert manifest.description
    assert (folder / "README.md").read_text().startswith("# ")


@EACH_FOLDER
def test_image_starts_what_the_manifest_says(folder):
    """The image's command is the manifest's, so that a player starts the same way on every backend."""
    (command,) = re.findall(r"^CMD (.*)$", (folder / "Dockerfile").read_text(), re.MULTILINE)
    assert json.loads(command) == read_manifest(folder).command


@EACH_FOLDER
def test_image_holds_every_file_that_plays(folder):
    """The Dockerfile copies each file of the folder but its papers, and stands on PyTorch only where that is used."""
    text = (folder / "Dockerfile").read_text()
    (copied,) = re.findall(r"^COPY (.*) /opt/player/$", text, re.MULTILINE)
    files = {path.name for path in folder.iterdir() if path.is_file()} - NOT_IN_THE_IMAGE
    assert set(copied.split()) == files
    needs_torch = "load_network" in (folder / "player.py").read_text()
    assert text.startswith("ARG BASE=sparring/base-torch:cpu\n" if needs_torch else "ARG BASE=sparring/base:cpu\n")


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_dockerfile_suits_the_sandbox_and_the_old_builder(path):
    """No volume, port or health check, which the sandbox refuses; nothing that only BuildKit understands."""
    text = path.read_text()
    words = {line.split()[0] for line in text.splitlines() if line and not line.startswith((" ", "#"))}
    assert words <= {"ARG", "FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "CMD"}
    assert not re.search(r"--mount|--chmod|--link|<<", text)


def test_images_do_not_run_as_root():
    """What all images stand on sets a numbered user that is not root, and only throw-away stages set another."""
    text = (ROOT / "images" / "_base" / "cpu.Dockerfile").read_text()
    common = text.partition("AS common\n")[2].partition("FROM")[0]
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", common, re.MULTILINE)
    for path in DOCKERFILES:
        last = path.read_text().rpartition("\nFROM ")[2]
        assert "USER" not in last


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("images/**/requirements*.lock")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_locks_pin_exact_versions(path):
    """Every line of a lock is one package in one version, in alphabetical order within its group."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    assert lines
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9.]*", line) for line in lines)
    assert len({line.partition("==")[0].lower() for line in lines}) == len(lines)


def test_archives_hold_plain_arrays_and_stay_small():
    """What the demo's submissions carry needs no unpickling and stays under 150 kB each."""
    found = sorted(ROOT.glob("examples/demo/submissions/*/*.npz"))
    assert {path.parent for path in found} == set(DEMO) - {ROOT / "examples/demo/submissions/attack_corners"}
    for path in found:
        assert path.stat().st_size < 150_000
        with np.load(path, allow_pickle=False) as archive:
            assert all(archive[name].size for name in archive.files)
