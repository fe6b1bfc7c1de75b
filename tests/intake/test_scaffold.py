"""A participant's first folder: whole, of one piece, and never over something else."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from orchestrator import resources
from orchestrator.domain.submissions import Side
from orchestrator.errors import Rejected, UsageError
from orchestrator.intake import contest_entries, image_build, manifest, scaffold
from orchestrator.intake.scaffold import Framework, ScaffoldRequest

ROOT = Path(__file__).parents[2]
EVERY = [(side, framework) for side in Side for framework in Framework if side in framework.sides]
EACH = pytest.mark.parametrize(("side", "framework"), EVERY, ids=[f"{s}-{f}" for s, f in EVERY])
OLD_BUILDER = {"ARG", "FROM", "RUN", "COPY", "WORKDIR", "USER", "CMD"}
LONGEST_PLAYER = 40


def attack(name: str = "mine", **changes) -> ScaffoldRequest:
    """Returns a wish for an attack."""
    return ScaffoldRequest(Side.ATTACK, name, **changes)


@EACH
def test_the_folder_is_whole(tmp_path, side, framework):
    """Every folder has what a submission needs, and its manifest says what was asked for."""
    made = scaffold.create_submission(ScaffoldRequest(side, "mine", framework), tmp_path / "mine")
    said = manifest.read_manifest(made.folder)
    assert (said.name, said.side, said.licence) == ("mine", side, "Apache-2.0")
    assert said.image == f"submission/{side}-mine"
    assert said.gpu == (framework is Framework.PYTORCH)
    assert set(made.files) == {path.name for path in made.folder.iterdir()}
    assert {"submission.yaml", "Dockerfile", ".dockerignore", "README.md", "LICENSE", made.player} <= set(made.files)
    readme = (made.folder / "README.md").read_text()
    assert (image_build.DOWNLOAD_WHEELS in readme) == ("requirements.lock" in made.files)
    assert readme.startswith(f"# mine\n\n{said.description}\n")
    assert "\n".join(made.commands).replace(str(made.folder), "mine") in readme
    assert not re.search(r"\$\w", readme + (made.folder / "submission.yaml").read_text())


@EACH
def test_one_thing_is_marked_in_a_short_player(tmp_path, side, framework):
    """The player is under 40 lines, and one of them is marked to be changed."""
    made = scaffold.create_submission(ScaffoldRequest(side, "mine", framework), tmp_path / "mine")
    text = (made.folder / made.player).read_text()
    assert len(text.splitlines()) < LONGEST_PLAYER
    marks = [
        path.name for path in made.folder.iterdir() if path.suffix and scaffold.EDIT_MARK.encode() in path.read_bytes()
    ]
    assert text.count(scaffold.EDIT_MARK) == 1
    assert sorted(marks) == sorted(["README.md", made.player])


@EACH
def test_the_image_is_what_the_manifest_says(tmp_path, side, framework):
    """The recipe starts the manifest's command, needs no new builder, and runs nothing as root."""
    made = scaffold.create_submission(ScaffoldRequest(side, "mine", framework), tmp_path / "mine")
    recipe = (made.folder / "Dockerfile").read_text()
    command = ", ".join(f'"{word}"' for word in manifest.read_manifest(made.folder).command)
    assert recipe.endswith(f"\nCMD [{command}]\n")
    assert {line.split()[0] for line in recipe.splitlines() if line and line[0] not in "# "} <= OLD_BUILDER
    last = recipe.rpartition("\nFROM ")[2]
    stands_on_ours = "ARG BASE=sparring/base" in recipe
    assert ("USER 10001:10001" in last) != stands_on_ours
    assert ("ARG BASE=sparring/base-torch:cpu\n" in recipe) == (framework is Framework.PYTORCH)


@EACH
def test_the_image_holds_every_file_that_plays(tmp_path, side, framework):
    """Each file that the player reads is named by a COPY of the last stage."""
    made = scaffold.create_submission(ScaffoldRequest(side, "mine", framework), tmp_path / "mine")
    copied = re.findall(r"^COPY (?!--from)(.+) /opt/player/$", (made.folder / "Dockerfile").read_text(), re.MULTILINE)
    held = {path.name for each in copied for pattern in each.split() for path in made.folder.glob(pattern)}
    papers = {"submission.yaml", "Dockerfile", ".dockerignore", "README.md", "LICENSE", "requirements.lock"}
    sources = {"Makefile", "player.c", "protocol.c", "protocol.h"}
    assert held == set(made.files) - papers - sources
    assert copied == ["player"] if framework is Framework.C else held


@pytest.mark.parametrize("name", ["0", "007", "1e3", "null", "true", "0x1f", "a-b_c", "a" * 64, "a__b-"])
def test_a_name_is_read_back_as_it_was_given(tmp_path, name):
    """A name that YAML would take for a number or a truth stays a name; its image has a name that engines take."""
    said = manifest.read_manifest(scaffold.create_submission(attack(name), tmp_path / "mine").folder)
    assert said.name == name
    assert re.fullmatch(r"submission/[a-z0-9]+(-[a-z0-9]+)*", said.image)


@pytest.mark.parametrize("name", ["", "Mine", "-mine", "my attack", "a" * 65, "../mine", "m\u00efne", "mine\n", "a/b"])
def test_what_cannot_be_a_name_is_refused(tmp_path, name):
    """A bad name is refused with what a name is, and nothing is written."""
    with pytest.raises(UsageError, match="begin with a letter or digit, then lower case"):
        scaffold.create_submission(attack(name), tmp_path / "mine")
    assert not any(tmp_path.iterdir())


def test_an_empty_folder_is_filled(tmp_path, monkeypatch):
    """A folder that is there and empty is filled, also the one that we are in."""
    monkeypatch.chdir(tmp_path)
    scaffold.create_submission(attack(), Path())
    assert Path("player.py").is_file()


def test_folders_above_are_made(tmp_path):
    """A folder in folders that are not there yet is made with them, and nothing else is left beside it."""
    scaffold.create_submission(attack(), tmp_path / "a" / "b" / "mine")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["mine"]


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    """What is there is neither written over nor added to."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="is there already and not empty; give another name, or another --out"):
        scaffold.create_submission(attack(), tmp_path / "mine")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "thesis.tex"]
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("place", ["file", "file/mine", "link"])
def test_a_place_that_cannot_be_a_folder_is_refused(tmp_path, place):
    """A file, a place below a file, and a link to nothing below a file are refused with a remedy; they stay."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "file" / "nothing")
    with pytest.raises(UsageError, match="another --out"):
        scaffold.create_submission(attack(), tmp_path / place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("there", [False, True], ids=["new", "empty"])
def test_nothing_is_left_half_written(tmp_path, monkeypatch, there):
    """Where the disk is full in the middle, the folder is as it was: not there, or empty."""
    if there:
        (tmp_path / "mine").mkdir()
    moves = iter([shutil.move, shutil.move])

    def move(source: Path, target: Path) -> None:
        step = next(moves, None)
        if step is None:
            target.write_text("half")
            raise OSError(28, "No space left on device")
        step(source, target)

    monkeypatch.setattr(scaffold.shutil, "move", move)
    with pytest.raises(UsageError, match="cannot be made: No space left on device"):
        scaffold.create_submission(attack(), tmp_path / "mine")
    assert [path.name for path in tmp_path.rglob("*")] == (["mine"] if there else [])


def test_the_licence_is_the_participants(tmp_path):
    """Apache-2.0 comes with its text; of another licence only its name is written, and where its text is."""
    scaffold.create_submission(attack(), tmp_path / "apache")
    assert (tmp_path / "apache" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    scaffold.create_submission(attack(licence="BSD-3-Clause"), tmp_path / "bsd")
    assert manifest.read_manifest(tmp_path / "bsd").licence == "BSD-3-Clause"
    text = (tmp_path / "bsd" / "LICENSE").read_text()
    assert text.startswith("SPDX-License-Identifier: BSD-3-Clause\n")
    assert "Apache" not in text


@pytest.mark.parametrize("licence", ["", "my own", "MIT\ngpu: true", "a" * 101, "-MIT"])
def test_what_cannot_be_an_spdx_id_is_refused(tmp_path, licence):
    """A licence goes into a YAML file, so what is no SPDX id by its letters is refused, and nothing is written."""
    with pytest.raises(UsageError, match="is not an SPDX id"):
        scaffold.create_submission(attack(licence=licence), tmp_path / "mine")
    assert not any(tmp_path.iterdir())


def test_templates_are_no_baselines():
    """No contest file can name a template as one of the organizers' players."""
    for name in ("templates", "shared", *Framework):
        with pytest.raises(Rejected, match="there is no"):
            contest_entries.builtin_folder(name)


def test_every_template_is_one_of_the_frameworks():
    """Each folder of templates can be asked for, and an installed package brings them."""
    folders = {path.name for path in resources.resource_path("images", "templates").iterdir() if path.is_dir()}
    assert folders == {"shared", *Framework}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert wheel["images"] == "orchestrator/_share/images"


@pytest.mark.parametrize("framework", scaffold.QUERYING)
def test_a_library_of_attacks_makes_no_defence(tmp_path, framework):
    """It is refused before anything is written; its attack is checked with queries."""
    with pytest.raises(UsageError, match="has no template for a defence"):
        scaffold.create_submission(ScaffoldRequest(Side.DEFENCE, "mine", framework), tmp_path / "mine")
    assert not any(tmp_path.iterdir())
    made = scaffold.create_submission(attack(framework=framework), tmp_path / "mine")
    assert [command.endswith("--access decision") for command in made.commands] == [True, True, False]
