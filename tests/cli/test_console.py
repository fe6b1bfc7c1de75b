"""What every command's output shares."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app

ASK = "from orchestrator.cli.console import out; print(out.width)"


@pytest.mark.parametrize(("columns", "width"), [(None, 180), ("40", 40)])
def test_what_is_no_terminal_is_a_page_wide(columns, width) -> None:
    """A table in a log breaks no names, unless somebody says how wide the log is."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment |= {"COLUMNS": columns} if columns else {}
    said = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    assert int(said.stdout) == width


@pytest.fixture
def misnamed(tmp_path) -> Path:
    """Returns a folder with a contest and a submission, whose own name is not UTF-8."""
    examples = Path(__file__).resolve().parents[2] / "examples" / "demo"
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    shutil.copy(examples / "contest.yaml", folder)
    shutil.copytree(examples / "submissions", folder / "submissions")
    return folder


@pytest.mark.parametrize("relative", [False, True], ids=["its-path", "from-inside"])
@pytest.mark.parametrize(
    "words",
    [
        ("contest", "check", "{}/contest.yaml"),
        ("contest", "init", "{}/new"),
        ("round", "run", "{}/contest.yaml", "--out", "{}/out", "--allow-unisolated"),
        ("round", "status", "{}"),
        ("submission", "check", "{}/submissions/attack_meanward"),
        ("submission", "try", "{}/submissions/attack_meanward", "--against", "undefended"),
        ("submission", "pack", "{}/submissions/attack_meanward"),
        ("submit", "{}", "{}/submissions/attack_meanward", "--team", "Reds"),
        ("publish", "{}", "--out", "{}/bundle"),
        ("verify", "{}"),
        ("verify", "{}", "--json"),
    ],
    ids=lambda words: "-".join(word for word in words if "{" not in word),
)
def test_a_path_that_is_not_utf_8_is_one_usage_error(misnamed, monkeypatch, words, relative) -> None:
    """Ledger, JSON and pages are UTF-8 and could not name it: every command says so before it does anything."""
    if relative:
        monkeypatch.chdir(misnamed)
    before = sorted(os.fsencode(path) for path in misnamed.rglob("*"))
    done = CliRunner().invoke(app, [word.format("." if relative else misnamed) for word in words])
    assert done.exit_code == 2, (done.output, done.exception)
    assert "not UTF-8" in done.output
    assert r"\udce9" in done.output
    assert sorted(os.fsencode(path) for path in misnamed.rglob("*")) == before


def test_any_other_argument_that_is_not_utf_8_is_one_usage_error(tmp_path) -> None:
    """A team's name, for example, would be in the ledger."""
    done = CliRunner().invoke(app, ["team", "add", str(tmp_path), "R\udcffds", "--member", "a@example.org:A"])
    assert (done.exit_code, r"R\udcffds: not UTF-8" in done.output) == (2, True), done.output
