"""The README's lines work, in their order, in a copy of the tree as a clone would be."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FENCE = re.compile(r"(?:<!-- (?P<mark>.+?) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = "not run by the tests: "
NEEDS_DOCKER = "needs docker"
BASE = "sparring/base:cpu"


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and the comment before it."""

    kind: str
    text: str
    mark: str


@pytest.fixture(scope="module")
def blocks(root) -> list[Block]:
    """The README's fenced blocks."""
    found = FENCE.finditer((root / "README.md").read_text("utf-8"))
    return [Block(each["kind"], each["text"], each["mark"] or "") for each in found]


@pytest.fixture(scope="module")
def clone(root, files, tmp_path_factory) -> Path:
    """A copy of what is committed or would be, with an environment in .venv that is this one's Python.

    `make` takes the environment as made, so that its targets run as they stand, without installing anything.
    """
    copy = tmp_path_factory.mktemp("readme") / "sparring"
    for path in files:
        target = copy / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    programs = copy / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, module in {"sparring": "-m orchestrator", "python": ""}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n')
        (programs / name).chmod(0o755)
    (programs / "activate").write_text(f"export PATH={shlex.quote(str(programs))}:$PATH\n")
    for stamp in (".demo", ".dev"):
        (copy / ".venv" / stamp).touch()
    return copy


@pytest.fixture
def run(clone) -> Callable[[list[Block]], str]:
    """Returns a function that runs blocks in one shell, in the clone, and returns what they print on stdout."""

    def shell(chosen: list[Block]) -> str:
        script = "\n".join(["set -euo pipefail", *(block.text for block in chosen)])
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST", "LANG") if name in os.environ}
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=clone,
            env=kept | {"PYTHONPATH": str(clone), "COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    return shell


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
def test_the_lines_work_without_docker(blocks, run, clone, document) -> None:
    """Everything that needs no engine runs as it stands, prints what the README shows, and leaves what it names."""
    printed = run([block for block in blocks if block.kind == "sh" and not block.mark])
    lines = {shape(line) for line in printed.splitlines()}
    sample = next(block.text for block in blocks if block.kind == "text" and "results " in block.text)
    for line in sample.splitlines():
        assert line == "..." or shape(line) in lines, line
    for folder in (clone / "demo", clone / "small"):
        explained = set(re.findall(r"^\| `([\w./]+?)/?` \|", document("results.md"), re.MULTILINE))
        written = {str(path.relative_to(folder)) for path in (*folder.iterdir(), *folder.glob("report/*"))} - {"report"}
        assert written <= explained
        assert {"ledger.sqlite", "results.json", "cells.csv", "report/index.html"} <= written


@pytest.mark.docker
@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_lines_work_with_docker(blocks, run, require, clone) -> None:
    """What needs an engine runs as it stands, where there is one that has the images."""
    try:
        command = ["docker", "image", "inspect", BASE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        require("docker", str(error))
    if done.returncode:
        require("docker", f"{done.stderr.strip()}; make images")
    activated = Block("sh", ". .venv/bin/activate", "")
    run([activated, *(block for block in blocks if block.mark == NEEDS_DOCKER)])
    assert (clone / "demo-container" / "report" / "index.html").exists()


def test_the_documented_installation_takes_no_cuda(root) -> None:
    """The line before `make demo` names PyTorch's CPU index, and no locked version is a CUDA package."""
    readme = (root / "README.md").read_text("utf-8")
    assert "export PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu\nmake demo\n" in readme
    for lock in ("_base", "attack_cw_l2"):
        text = (root / "images" / lock / "requirements.lock").read_text("utf-8")
        assert "nvidia" not in text
        assert "triton" not in text
