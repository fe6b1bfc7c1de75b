"""`sparring submission build` and `pack`, and `submit` of what was packed: output, JSON, remedies, exit codes."""

import json
import re
import secrets
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app
from orchestrator.errors import BackendUnavailable
from orchestrator.plugins import load_plugin
from orchestrator.sandboxes.base import BackendSettings
from tests.small_image import BASE, small_base_image

SUBMISSION = Path(__file__).resolve().parents[2] / "examples" / "demo" / "submissions" / "attack_corners"
runner = CliRunner()


def sparring(*arguments: object):
    """Runs one command in this process."""
    return runner.invoke(app, [str(argument) for argument in arguments])


def said(done) -> str:
    """Returns what a command printed on standard error, on one line."""
    return " ".join(done.stderr.split())


@pytest.fixture
def entry(tmp_path, monkeypatch) -> Path:
    """A copy of one of the demo's submissions, with an image name that is its own, and a cache of its own."""
    folder = tmp_path / "entry"
    folder.mkdir()
    for path in SUBMISSION.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    manifest = folder / "submission.yaml"
    text = manifest.read_text().replace("sparring/attack-corners", f"sparring-test/{secrets.token_hex(8)}")
    manifest.write_text(text)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def engine(require, tmp_path, entry):
    """The engine's workshop. The submission's image, which is built on the small base, goes afterwards."""
    backend = load_plugin("sandboxes", "docker")(BackendSettings(tmp_path))
    try:
        backend.require_available()
    except BackendUnavailable as error:
        require("docker", str(error))
    recipe = entry / "Dockerfile"
    recipe.write_text(recipe.read_text().replace(BASE, small_base_image()))
    yield backend
    tag = re.search(r"sparring-test/[0-9a-f]+", (entry / "submission.yaml").read_text())[0]
    backend.image_store().untag(f"{tag}:cpu")


@pytest.mark.parametrize("command", ["build", "pack"])
def test_every_command_has_help_and_an_example(command) -> None:
    """`--help` says what it does, offers --json, and ends with a line that can be typed."""
    done = sparring("submission", command, "--help")
    assert done.exit_code == 0
    shown = " ".join(done.stdout.split())
    assert "--json" in shown
    assert f"Example: sparring submission {command}" in shown


def test_a_folder_is_packed_and_submitted(entry, tmp_path) -> None:
    """Digest, size and what was left out are printed; the package is submitted elsewhere as it is."""
    (entry / ".env").write_text("TOKEN=1")
    done = sparring("submission", "pack", entry, "--no-image")
    assert done.exit_code == 0, done.output
    assert re.search(
        r"package +corners.sparring.tar\ndigest +sha256:[0-9a-f]{64}\nsize +\d+ bytes, 4 files, no image", done.stdout
    )
    assert "left out .env" in said(done)
    cup = tmp_path / "cup"
    assert sparring("contest", "init", cup).exit_code == 0
    assert sparring("team", "add", cup, "T", "--member", "ada@example.org:Ada").exit_code == 0
    done = sparring("submit", cup, "corners.sparring.tar", "--team", "T", "--allow-unisolated", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["submission"] == "corners"
    done = sparring("submit", cup, "other.sparring.tar", "--team", "T")
    assert (done.exit_code, "there is no file other.sparring.tar" in said(done)) == (2, True)
    (tmp_path / "bad.zip").write_bytes(b"PK no")
    done = sparring("submit", cup, "bad.zip", "--team", "T")
    assert (done.exit_code, "it was cut short: send it again" in said(done)) == (1, True)


def test_json_is_the_whole_answer(entry) -> None:
    """With --json one document is printed, of errors too."""
    done = sparring("submission", "pack", entry, "--no-image", "--out", "x", "--json")
    document = json.loads(done.stdout)
    assert document["image"] is None
    assert (document["package"], document["files"], document["left_out"]) == ("x", 4, [])
    (entry / "link").symlink_to("/etc")
    done = sparring("submission", "pack", entry, "--no-image", "--out", "x", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["error"]["problems"][0]["remedy"] == "put the file itself there"


def test_what_contradicts_itself_is_refused(entry) -> None:
    """--image with --no-image, a variant that there is not, a base without its argument: each is a usage error."""
    for words in (["pack", entry, "--image", "x", "--no-image"], ["build", entry, "--variant", "tpu"]):
        done = sparring("submission", *words)
        assert done.exit_code == 2
        assert "usage" in said(done)


def test_without_an_engine_the_folder_is_packed(entry, monkeypatch, tmp_path) -> None:
    """Where no engine answers, the folder is packed alone, and it is said; an image that was asked for is missed."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    done = sparring("submission", "pack", entry)
    assert done.exit_code == 0
    assert "no image" in done.stdout
    assert "no Docker engine listens" in said(done)
    assert "the folder is packed alone" in said(done)
    assert sparring("submission", "pack", entry, "--image", "x").exit_code == 3
    assert sparring("submission", "build", entry).exit_code == 3


@pytest.mark.docker
def test_an_image_is_built_and_packed(entry, engine) -> None:
    """The builder is heard on standard error and kept in a log; a stale image is packed with a warning."""
    done = sparring("submission", "build", entry)
    assert done.exit_code == 0, done.output
    log = re.search(r"^log +(.+)$", done.stdout, re.MULTILINE)[1]
    assert "Successfully built" in Path(log).read_text()
    assert "Successfully built" in said(done)
    identity = re.search(r"^id +(sha256:\w+)$", done.stdout, re.MULTILINE)[1]
    again = json.loads(sparring("submission", "build", entry, "--json").stdout)
    assert again["image"] == identity
    done = sparring("submission", "pack", entry)
    assert done.exit_code == 0, done.output
    assert "and an image" in done.stdout
    assert done.stderr == ""
    (entry / "player.py").write_text("print()\n")
    manifest = entry / "submission.yaml"
    manifest.write_text(manifest.read_text().replace("[python, player.py]", "[python, other.py]"))
    warned = said(sparring("submission", "pack", entry))
    assert "was built from other files" in warned
    assert "starts 'python player.py', submission.yaml says 'python other.py'" in warned


@pytest.mark.docker
def test_a_failing_build_says_where(entry, engine) -> None:
    """The exit code is 1; the last line, the log and the probable cause are in the message."""
    with (entry / "Dockerfile").open("a") as file:
        file.write("RUN echo the reason; exit 4\n")
    (entry / "requirements.lock").write_text("foolbox==3.3.4\n")
    done = sparring("submission", "build", entry, "--log", "mine.log")
    assert done.exit_code == 1
    text = said(done)
    assert "returned a non-zero code: 4" in text
    assert "all of it is in mine.log" in text
    assert "there is no wheels/ beside it" in text
    assert "the reason" in Path("mine.log").read_text()


@pytest.mark.docker
def test_an_image_that_is_not_there_is_told(entry, engine) -> None:
    """Before a build the folder is packed alone, and it is said; an image that was asked for is missed."""
    done = sparring("submission", "pack", entry)
    assert done.exit_code == 0
    assert "the engine has no image sparring-test/" in said(done)
    done = sparring("submission", "pack", entry, "--image", "sparring-test/there-is-none")
    assert (done.exit_code, "the engine has no image" in said(done)) == (2, True)


@pytest.mark.docker
def test_the_revision_is_that_of_a_clean_checkout(entry, engine) -> None:
    """The commit is on the image's labels; where files changed since, none is."""
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(entry)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    for expected in (commit, None):
        tag = json.loads(sparring("submission", "build", entry, "--json").stdout)["tag"]
        labels = engine.inspect_image(tag, files=False).labels
        assert labels.get("org.opencontainers.image.revision") == expected
        (entry / "notes.txt").write_text("changed")
