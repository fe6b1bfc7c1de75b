"""`sparring image`: images brought in and looked at, on a machine without an engine."""

import hashlib
import json
import os

import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app

from ..sandboxes.image_files.test_flatten import tar_of

runner = CliRunner()
NAME = "team/entry:1"


def sparring(*arguments: object):
    """Runs one command in this process."""
    return runner.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch, tmp_path) -> None:
    """No engine listens, and nothing was brought in yet."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def layout(tmp_path):
    """A folder with one image in the OCI layout, as `skopeo copy docker://... oci:FOLDER` writes it."""
    blobs = tmp_path / "image" / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes, kind: str) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    layer = blob(tar_of(("player", None)), "layer.v1.tar")
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": ["/player/none"]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    parts = {"config": blob(json.dumps(config).encode(), "config.v1+json"), "layers": [layer]}
    manifest = blob(json.dumps({"schemaVersion": 2, **parts}).encode(), "manifest.v1+json")
    (blobs.parents[1] / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (blobs.parents[1] / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    return tmp_path / "image"


def test_an_image_is_brought_in_and_looked_at(layout) -> None:
    """Its id is printed, and by its name it is found again, with what keeps it from playing."""
    done = sparring("image", "load", layout, "--name", NAME, "--backend", "runc", "--json")
    assert done.exit_code == 0, done.output
    identity = json.loads(done.stdout)["id"]
    shown = sparring("image", "inspect", NAME, "--backend", "runc", "--json")
    assert shown.exit_code == 1
    document = json.loads(shown.stdout)
    assert document["id"] == identity
    assert [each["place"] for each in document["refused"]] == ["ENTRYPOINT"]


@pytest.mark.parametrize(
    ("path", "name", "code", "what"),
    [
        ("image", "../x", 2, "is no name of an image"),
        ("image", "sha256:" + "0" * 64, 2, "is no name of an image"),
        ("nothing", NAME, 2, "nothing"),
        ("image/index.json", NAME, 1, "index.json"),
        ("image/blobs", NAME, 1, "oci-layout"),
    ],
)
def test_what_is_no_image_is_refused(layout, path, name, code, what) -> None:
    """With the place, and nothing is brought in."""
    done = sparring("image", "load", layout.parent / path, "--name", name, "--backend", "runc")
    assert done.exit_code == code, done.output
    assert what in done.stderr
    assert sparring("image", "inspect", NAME, "--backend", "runc").exit_code == 2


def test_shipped_images_are_built_by_their_script(monkeypatch, tmp_path) -> None:
    """What the script says is shown as it comes, and where it fails, its reason and its remedy are the error."""
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    refused = sparring("image", "build", "base", "--json")
    message = json.loads(refused.stdout)["error"]["message"]
    assert (refused.exit_code, message) == (
        3,
        "the images were not built: no Docker engine answers; start it, or point DOCKER_HOST at one",
    )
    assert "images/build.sh: no Docker engine answers" in refused.stderr
    wrong = sparring("image", "build", "bass")
    assert wrong.exit_code == 2
    assert "bass is neither a folder nor one of base, runner, service" in " ".join(wrong.stderr.split())
