"""`sparring submission import`: what it says, and how it ends."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app

EXAMPLES = Path(__file__).parents[2] / "examples" / "nips2017"
runner = CliRunner()


def import_folder(*arguments: object):
    """Runs the command in this process."""
    return runner.invoke(app, ["submission", "import", *(str(argument) for argument in arguments)])


@pytest.fixture
def old(tmp_path, monkeypatch) -> str:
    """The name of a defence of the layout in the folder that the test is in."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLES / "defence_means_2017", "means")
    return "means"


def test_it_says_what_to_do_next(old):
    """It names what was written and the next commands, and warns of what is missing."""
    done = import_folder(old)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "imported means, side defence; its script is run_defence.sh",
        "written  means: submission.yaml, Dockerfile, .dockerignore",
        "next     sparring submission check means",
        "         sparring submission try means --against fgsm",
        "         sparring submission pack means",
    ]
    assert "its container gcr.io/example/means is not used" in done.stderr
    assert "without an OSI-approved licence it is not ranked in the end (A6)" in done.stderr


def test_it_gives_json(old):
    """With --json the same is one document."""
    done = import_folder(old, "--name", "mine", "--labels-from", "1", "--licence", "MIT", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told == {
        "folder": str(Path(old).resolve()),
        "name": "mine",
        "side": "defence",
        "written": ["submission.yaml", "Dockerfile", ".dockerignore"],
        "entry_point": "run_defence.sh",
        "container": "gcr.io/example/means",
        "next": [
            "sparring submission check means",
            "sparring submission try means --against fgsm",
            "sparring submission pack means",
        ],
    }
    assert "labels_from: 1\n" in Path(old, "submission.yaml").read_text()


def test_it_ends_with_whose_fault_it_is(old, tmp_path):
    """A folder of another layout is a rejection, a second time a wrong use, each with the remedy."""
    (tmp_path / "empty").mkdir()
    done = import_folder("empty")
    assert done.exit_code == 1
    assert "metadata.json: missing, or no plain file; `sparring explain migrating-from-nips-2017`" in done.stderr
    assert import_folder(old).exit_code == 0
    done = import_folder(old)
    assert done.exit_code == 2
    assert "already exists; `sparring submission check` tests it" in done.stderr
    assert import_folder(old, "--labels-from", "2").exit_code == 2
