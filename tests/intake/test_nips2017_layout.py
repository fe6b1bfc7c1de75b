"""The form `files`: its manifest, the hostile metadata.json beside it, and a folder that is adopted."""

import json
import os
import stat

import pytest

from orchestrator.domain.submissions import Side
from orchestrator.errors import Rejected, UsageError
from orchestrator.intake import adopt_nips2017, dockerfile, image_build, manifest, nips2017_layout
from orchestrator.intake.adopt_nips2017 import AdoptionRequest
from orchestrator.intake.manifest import Form

THEIRS = {side: word for word, side in nips2017_layout.SIDES.items()}
GOOD = {"type": THEIRS[Side.DEFENCE], "container": "x", "container_gpu": "y", "entry_point": "run.sh"}
SAID = "sparring: 1\nname: old\nside: defence\nform: files\n"


@pytest.fixture
def folder(tmp_path):
    """A folder of the layout with a manifest."""
    made = tmp_path / "Old Means!"
    made.mkdir()
    (made / "metadata.json").write_text(json.dumps(GOOD))
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "submission.yaml").write_text(SAID)
    return made


@pytest.fixture
def refused(folder):
    """Returns the problems of a folder's manifest, with these changes to it."""

    def problems(said: str = SAID, metadata: object = GOOD) -> list[str]:
        (folder / "submission.yaml").write_text(said)
        data = metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode()
        (folder / "metadata.json").write_bytes(data)
        with pytest.raises(Rejected) as caught:
            manifest.read_manifest(folder)
        return [str(problem) for problem in caught.value.problems]

    return problems


def test_the_command_follows(folder):
    """Without a command it is the adapter's, with the number of the first class; one that is given stands."""
    found = manifest.read_manifest(folder)
    assert (found.form, found.command) == (Form.FILES, ["python", "-m", "sparring_files"])
    (folder / "submission.yaml").write_text(SAID + "labels_from: 1\n")
    assert manifest.read_manifest(folder).command == ["python", "-m", "sparring_files", "--labels-from", "1"]
    (folder / "submission.yaml").write_text(SAID + "command: [python3, adapter.py]\n")
    assert manifest.read_manifest(folder).command == ["python3", "adapter.py"]


def test_streams_are_the_default(refused):
    """Without `form` a command is needed, and metadata.json is not looked at."""
    said = SAID.replace("form: files\n", "")
    expected = ["line 1, command: missing; give the words that start it in its folder, such as [python, player.py]"]
    assert refused(said, b"nonsense") == expected
    assert refused(said + "form: stream\n") == expected


def test_all_problems_come_at_once(refused):
    """What is wrong in the manifest, between its keys, and in metadata.json comes together."""
    found = refused("sparring: 1\nname: OLD\nform: files\nlabels_from: 1\ncommand: [a]\nwhat: 1\n", {"type": "?"})
    assert [problem.split(":")[0] for problem in found] == [
        "line 2, name",
        "line 1, side",
        "line 6, what",
        "line 4, labels_from",
        "metadata.json, entry_point",
    ]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (SAID + "labels_from: 2\n", "line 5, labels_from: 2 is not allowed here"),
        (SAID.replace("files", "tape"), "line 4, form: 'tape' is not allowed here"),
        (
            SAID.replace("files", "stream") + "command: [a]\nlabels_from: 0\n",
            "line 6, labels_from: is allowed only with `form: files`",
        ),
        (
            SAID + "command: [a]\nlabels_from: 1\n",
            "line 6, labels_from: has no effect beside a `command`",
        ),
        (
            SAID.replace("defence", "attack"),
            "metadata.json, type: it is of side defence, submission.yaml says attack",
        ),
    ],
)
def test_what_does_not_fit_is_refused(refused, said, problem):
    """Keys that contradict each other are refused, each with its line and the remedy."""
    found = refused(said)
    assert problem in [each.split(";")[0] for each in found]
    assert all(";" in each for each in found), "a problem without a remedy"


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        (b"", "metadata.json: not JSON"),
        (b"\xff\xfe", "metadata.json: not JSON"),
        (b"[1]", "metadata.json: a list of 1 item is not a mapping"),
        (b"[" * 60_000, "metadata.json: not JSON: recursion limit exceeded"),
        (b" " * 65_537, "metadata.json: more than 65536 bytes; shorten it"),
        ({}, "metadata.json, type: missing"),
        (GOOD | {"type": 7}, "metadata.json, type: 7 is not text"),
        (GOOD | {"type": "targeted_attack"}, "metadata.json, type: targeted attacks cannot take part"),
        (GOOD | {"type": "\x1b[2J"}, r"metadata.json, type: '\\x1b[2J' is not known; one of attack, "),
        (GOOD | {"entry_point": ""}, "metadata.json, entry_point: an empty text is too short"),
        (GOOD | {"entry_point": "x" * 201}, "metadata.json, entry_point: 201 characters are too many"),
        (GOOD | {"entry_point": "/bin/sh"}, "metadata.json, entry_point: '/bin/sh' leads out of the folder"),
        (GOOD | {"entry_point": "a/../../b"}, "metadata.json, entry_point: 'a/../../b' leads out of the folder"),
        (GOOD | {"entry_point": "run.sh\0"}, "leads out of the folder"),
        (GOOD | {"entry_point": "."}, "metadata.json, entry_point: there is no plain file '.'"),
        (GOOD | {"entry_point": "go.sh"}, "metadata.json, entry_point: there is no plain file 'go.sh'"),
        (GOOD | {"entry_point": "\ud800"}, "metadata.json"),
    ],
)
def test_hostile_metadata_is_refused(refused, metadata, problem):
    """Whatever metadata.json is, its problem is one line in words."""
    found = refused(metadata=metadata)
    assert any(problem in each for each in found), found
    assert all(each.isprintable() and len(each) < 500 for each in found)


@pytest.mark.parametrize("name", ["metadata.json", "run.sh"])
def test_no_link_is_followed(folder, name):
    """A symbolic link in the place of a file is refused, for it may lead anywhere."""
    (folder / name).rename(folder / "elsewhere")
    (folder / name).symlink_to(folder / "elsewhere")
    with pytest.raises(Rejected, match="plain file"):
        manifest.read_manifest(folder)


def test_a_pipe_is_no_metadata(folder):
    """What would block the reader is refused."""
    (folder / "metadata.json").unlink()
    os.mkfifo(folder / "metadata.json")
    with pytest.raises(Rejected, match="missing, or no plain file"):
        manifest.read_manifest(folder)


@pytest.fixture
def theirs(folder):
    """A folder of the layout as it came: without a manifest."""
    (folder / "submission.yaml").unlink()
    return folder


def test_a_folder_is_adopted(theirs):
    """A manifest and a recipe are written beside what is there, which stays as it is, and can be built and played."""
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in theirs.iterdir()}
    made = adopt_nips2017.adopt_folder(theirs, AdoptionRequest(labels_from=1, licence="MIT"))
    assert (made.name, made.side, made.entry_point, made.container) == ("old-means", Side.DEFENCE, "run.sh", "x")
    assert made.written_files == ("submission.yaml", "Dockerfile", ".dockerignore")
    assert {name: ((theirs / name).read_bytes(), (theirs / name).stat().st_mtime_ns) for name in before} == before
    assert {path.name for path in theirs.iterdir()} == {*before, *made.written_files}
    found = manifest.read_manifest(theirs)
    assert (found.name, found.side, found.form, found.licence) == ("old-means", Side.DEFENCE, Form.FILES, "MIT")
    assert found.image == "submission/defence-old-means"
    assert dockerfile.read_dockerfile(theirs).bases == ("sparring/base:cpu",)
    assert (theirs / "Dockerfile").read_text().endswith(f"\nCMD {json.dumps(found.command)}\n")
    assert (
        image_build.prepare_build(theirs, image_build.ImageBuildOptions()).recipe.tag
        == "submission/defence-old-means:cpu"
    )


def test_what_is_there_stays(theirs):
    """A Dockerfile of their own is left alone."""
    (theirs / "Dockerfile").write_text("FROM theirs\n")
    (theirs / ".dockerignore").symlink_to("nowhere")
    assert adopt_nips2017.adopt_folder(theirs, AdoptionRequest(name="mine")).written_files == ("submission.yaml",)
    assert (theirs / "Dockerfile").read_text() == "FROM theirs\n"
    assert (theirs / ".dockerignore").is_symlink()
    assert stat.S_IMODE((theirs / "submission.yaml").stat().st_mode) & stat.S_IRUSR


@pytest.mark.parametrize("name", ["1", "null", "true", "0x1f", "1e5", "on", "a" * 64])
def test_a_name_stays_text(theirs, name):
    """A name that YAML could take for something else is read back as it was given."""
    adopt_nips2017.adopt_folder(theirs, AdoptionRequest(name=name))
    assert manifest.read_manifest(theirs).name == name


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (AdoptionRequest(name="Mine"), "'Mine' cannot be a submission's name; give another with --name"),
        (AdoptionRequest(name="x\n"), r"'x\\n' cannot be a submission's name"),
        (AdoptionRequest(licence="what I like"), "'what I like' is not an SPDX id"),
    ],
)
def test_what_cannot_be_written_is_refused(theirs, wanted, said):
    """It says what to give instead, and nothing is written."""
    before = set(theirs.iterdir())
    with pytest.raises(UsageError, match=said):
        adopt_nips2017.adopt_folder(theirs, wanted)
    assert set(theirs.iterdir()) == before


def test_a_manifest_is_not_written_twice(folder):
    """A folder that has a manifest is left as it is, and so is one that holds no metadata.json."""
    with pytest.raises(UsageError, match="already exists"):
        adopt_nips2017.adopt_folder(folder, AdoptionRequest())
    assert (folder / "submission.yaml").read_text() == SAID
    with pytest.raises(Rejected, match=r"metadata\.json: missing"):
        adopt_nips2017.adopt_folder(folder.parent, AdoptionRequest(name="mine"))
    with pytest.raises(UsageError, match="there is no folder"):
        adopt_nips2017.adopt_folder(folder / "run.sh", AdoptionRequest())
