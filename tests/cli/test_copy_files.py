"""`sparring copy`: what is shipped, where somebody can change it."""

import json

from typer.testing import CliRunner

from orchestrator.cli.app import app

runner = CliRunner()


def run(*words, code: int = 0):
    """Runs the command and returns its result."""
    done = runner.invoke(app, ["copy", *map(str, words)])
    assert done.exit_code == code, done.output
    return done


def test_copies_keep_their_paths(tmp_path) -> None:
    """A contest that names baselines beside it is checked in the copy; a part of something wanted is copied once."""
    run("examples/demo", "images", "images/attack_fgsm", "schemas/protocol.md", "--out", tmp_path)
    assert (tmp_path / "schemas" / "protocol.md").is_file()
    assert not list(tmp_path.rglob("__pycache__"))
    checked = runner.invoke(app, ["contest", "check", str(tmp_path / "examples" / "demo" / "contest.yaml")])
    assert checked.exit_code == 0, checked.output


def test_what_is_listed_can_be_copied(tmp_path) -> None:
    """Without a name everything is listed by the names that the command takes."""
    listed = json.loads(run("--json").stdout)["shipped"]
    assert {"examples", "examples/nips2017", "images/attack_fgsm", "k8s/overlays", "schemas/vectors"} <= set(listed)
    copied = json.loads(run(*listed, "--out", tmp_path, "--json").stdout)["copied"]
    assert [name.removeprefix(f"{tmp_path}/") for name in copied] == [name for name in listed if "/" not in name]


def test_nothing_is_overwritten(tmp_path) -> None:
    """Where one of the targets is there already, nothing is copied."""
    (tmp_path / "k8s").mkdir()
    refused = run("schemas", "k8s", "--out", tmp_path, code=2)
    assert "is there already" in " ".join(refused.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["k8s"]


def test_only_what_is_shipped_is_copied(tmp_path) -> None:
    """Names that lead elsewhere, or to nothing, are refused with what to do."""
    for name in ("orchestrator", "/etc", "images/../orchestrator", "images/nosuch", ""):
        assert "`sparring copy` lists" in " ".join(run(name, "--out", tmp_path, code=2).stderr.split())
    assert not list(tmp_path.iterdir())
