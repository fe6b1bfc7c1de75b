"""The README's lines work, in their order, in a copy of the tree as a clone would be."""

import re
import subprocess

import pytest

from tests import readme
from tests.readme import Block

# The lines play the demo, which other tests look at.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("demo")]

NOT_RUN = "not run by the tests: "
NEEDS_DOCKER = "needs docker"
BASE = "sparring/base:cpu"


@pytest.fixture(scope="module")
def blocks() -> list[Block]:
    """The README's fenced blocks."""
    return readme.blocks()


def shape(line: str) -> str:
    """Returns a line with numbers, and how many spaces and dashes there are, taken away."""
    return " ".join(re.sub(r"-?\d+(\.\d+)?", "0", re.sub("─+", "-", line)).split())


def test_every_block_is_run_or_says_why(blocks) -> None:
    """Commands are in `sh` blocks, at most one is not run, and it gives its reason."""
    commands = [block for block in blocks if block.kind != "text"]
    assert {block.kind for block in commands} == {"sh"}
    marked = [block.mark for block in commands if block.mark and block.mark != NEEDS_DOCKER]
    assert len(marked) <= 1
    assert all(mark.startswith(NOT_RUN) and len(mark) > len(NOT_RUN) + 20 for mark in marked)
    assert len([block for block in commands if not block.mark]) >= 2


@pytest.mark.timeout(600)
def test_the_lines_work_without_docker(blocks, readme_lines, document) -> None:
    """Everything that needs no engine runs, prints what the README shows, and leaves what it names.

    Two contests are played in less time: the small one of tests/e2e/test_installed.py has a sandbox for each meeting,
    and tests/e2e/test_season.py asks questions again.
    """
    if not readme.SOAK:
        assert any(readme.SMALL in block.text for block in blocks)
        contest = (readme_lines.clone / "cup" / "contest.yaml").read_text("utf-8")
        assert all(instead in contest and written not in contest for written, instead in readme.QUICK.items())
    lines = {shape(line) for line in readme_lines.printed.splitlines()}
    sample = next(block.text for block in blocks if block.kind == "text" and "results " in block.text)
    for line in sample.splitlines():
        assert line == "..." or shape(line) in lines, line
    for folder in (readme_lines.clone / "demo", readme_lines.clone / "small"):
        explained = set(re.findall(r"^\| `([\w./]+?)/?` \|", document("results.md"), re.MULTILINE))
        written = {str(path.relative_to(folder)) for path in (*folder.iterdir(), *folder.glob("report/*"))} - {"report"}
        assert written <= explained
        assert {"ledger.sqlite", "results.json", "cells.csv", "report/index.html"} <= written


@pytest.mark.docker
@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_lines_work_with_docker(blocks, require, tmp_path) -> None:
    """What needs an engine runs as it stands, where there is one that has the images."""
    try:
        command = ["docker", "image", "inspect", BASE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        require("docker", str(error))
    if done.returncode:
        require("docker", f"{done.stderr.strip()}; make images")
    activated = Block("sh", ". .venv/bin/activate", "")
    readme.make_clone(tmp_path)
    readme.run(tmp_path, [activated, *(block for block in blocks if block.mark == NEEDS_DOCKER)])
    assert (tmp_path / "demo-container" / "report" / "index.html").exists()


def test_the_documented_installation_takes_no_cuda(root) -> None:
    """The line before `make demo` names PyTorch's CPU index, and no locked version is a CUDA package."""
    readme = (root / "README.md").read_text("utf-8")
    assert "export PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu\nmake demo\n" in readme
    for lock in ("_base", "attack_cw_l2"):
        text = (root / "images" / lock / "requirements.lock").read_text("utf-8")
        assert "nvidia" not in text
        assert "triton" not in text
