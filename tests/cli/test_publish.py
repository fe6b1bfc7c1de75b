"""`sparring verify` of what is no bundle and no receipt: a usage error that says what to give instead."""

import json
import shutil
from pathlib import Path
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app

runner = CliRunner()


def verify(*arguments: object):
    """Runs `sparring verify`."""
    return runner.invoke(app, ["verify", *map(str, arguments)])


@pytest.fixture
def odd(tmp_path) -> Path:
    """A folder with things that people confuse with a bundle."""
    folder = tmp_path / "my things"
    (folder / "other").mkdir(parents=True)
    (folder / "other" / "note.txt").write_text("hello")
    shutil.copytree(folder / "other", folder / "empty", ignore=lambda *_: ["note.txt"])
    with ZipFile(folder / "bundle.zip", "w") as archive:
        archive.writestr("manifest.json", "{}")
    assert runner.invoke(app, ["contest", "init", str(folder / "cup")]).exit_code == 0
    return folder


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other", "it has no manifest.json; give the folder that `sparring publish` wrote, or a receipt"),
        ("empty", "it has no manifest.json; give the folder that `sparring publish` wrote, or a receipt"),
        ("cup", "my things/cup' --out BUNDLE` writes a bundle of it"),
        ("bundle.zip", "bundle.zip is an archive; unpack it, and give the bundle's folder"),
        ("missing", "give a bundle's folder, or a receipt"),
    ],
)
def test_what_is_no_bundle_is_a_usage_error(odd, name, message) -> None:
    """Nothing was forged where nothing was signed: the exit code is 2, and the message says what to give."""
    done = verify(odd / name)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert json.loads(verify(odd / name, "--json").stdout)["error"]["code"] == "usage"


@pytest.mark.parametrize("kept", ["manifest.json", "manifest.sig", "contest.jsonl"])
def test_what_is_left_of_a_bundle_is_not_genuine(odd, kept) -> None:
    """A folder with any of a bundle's own files is checked, and fails with exit code 1."""
    (odd / "other" / kept).write_text("{}")
    done = verify(odd / "other")
    assert done.exit_code == 1
    assert "not-genuine: manifest." in done.stderr


def test_the_other_paths_are_looked_at_too(odd) -> None:
    """The sealed bundle that a full one opens has to be a bundle, and a kept receipt a file."""
    (odd / "other" / "manifest.json").write_text("{}")
    assert verify(odd / "other", "--sealed", odd / "empty").exit_code == 2
    done = verify(odd / "other", "--receipt", odd / "empty")
    assert done.exit_code == 2
    assert "give a receipt's file" in done.stderr


def test_a_file_that_is_no_receipt_has_a_remedy(odd) -> None:
    """Any other file may be a receipt that was damaged: it is not genuine, and the message says what a receipt is."""
    done = verify(odd / "other" / "note.txt")
    assert done.exit_code == 1
    assert "note.txt: is no JSON" in done.stderr
    assert "give the receipt as the organizers sent it, or a bundle's folder" in done.stderr
