"""Fixtures for tests of the repository: its files, the blocks of a document, and a shell that runs them."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import forked_commands, readme

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(?:<!-- (?P<mark>.+?) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
NEEDS_DOCKER = "needs docker"
"""The comment before a block that needs an engine."""
DEFAULT_CHECK = re.compile(r"^sparring submission (?:check|try) (?!.*--(?:access|backend|contest)).*$", re.MULTILINE)
"""A line that plays the shipped contest for checks."""
DEMO = ROOT / "examples" / "demo" / "submissions"
LIGHT = {
    "first: 100": "first: 10",
    "{builtin: attack_fgsm}": f"{{folder: {DEMO / 'attack_softmax'}, name: fgsm}}",
    "{builtin: defence_undefended}": f"{{folder: {DEMO / 'defence_neighbours'}, name: undefended}}",
}
"""What the shipped contest says, and what it says instead: fewer pictures, and players that need no PyTorch."""


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def files() -> list[Path]:
    """Every file that is committed or not ignored; outside a checkout, every file that no tool has left."""
    return readme.files()


@pytest.fixture(scope="session")
def texts(files: list[Path]) -> dict[Path, str]:
    """The text files among them, by their path from the root."""
    found = {}
    for path in files:
        data = path.read_bytes()
        if b"\0" in data:
            continue
        try:
            found[path.relative_to(ROOT)] = data.decode("utf-8")
        except UnicodeDecodeError:
            continue  # a test vector that is malformed on purpose, or an archive
    return found


@pytest.fixture(scope="session")
def documents(texts: dict[Path, str]) -> dict[Path, str]:
    """The Markdown files among them."""
    return {path: text for path, text in texts.items() if path.suffix == ".md"}


@pytest.fixture(scope="session")
def document() -> Callable[[str], str]:
    """Returns the text of a document in docs/."""
    return lambda name: (ROOT / "docs" / name).read_text("utf-8")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and the comment before it."""

    kind: str
    text: str
    mark: str


def blocks_of(text: str) -> list[Block]:
    """Returns a document's fenced blocks."""
    return [Block(each["kind"], each["text"], each["mark"] or "") for each in BLOCK.finditer(text)]


@pytest.fixture(scope="session")
def commands() -> Iterator[Path]:
    """The socket of the process that forks the commands of `sparring` in shells, all but the first of each shell."""
    with forked_commands.server(ROOT, {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}) as address:
        yield address


@pytest.fixture
def shell(tmp_path, commands) -> Callable[[str], str]:
    """Runs lines in one shell, in `tmp_path`/work, empty at first, and returns what they print on standard output."""
    return shell_in(tmp_path, commands)


@pytest.fixture
def lightly(tmp_path) -> Callable[[str], str]:
    """Returns lines in which `check` and `try` play the shipped contest on few pictures and without PyTorch.

    The lines of README.md, and those with `--access`, play it as it is; with SPARRING_SOAK all do.
    """
    if os.environ.get("SPARRING_SOAK"):
        return lambda lines: lines
    text = (ROOT / "examples" / "trial-match" / "contest.yaml").read_text("utf-8")
    for written, instead in LIGHT.items():
        assert written in text
        text = text.replace(written, instead)
    (tmp_path / "light.yaml").write_text(text, "utf-8")
    return lambda lines: DEFAULT_CHECK.sub(r"\g<0> --contest ../light.yaml", lines)


def shell_in(folder: Path, commands: Path) -> Callable[[str], str]:
    """Returns what runs lines in one shell, in `folder`/work, which it makes."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    (programs / "python").chmod(0o755)
    forked_commands.write_program(programs / "sparring", commands)
    (folder / "work").mkdir()

    def run(text: str) -> str:
        kept = {word: os.environ[word] for word in ("DOCKER_HOST", "LANG", "OMP_NUM_THREADS") if word in os.environ}
        surroundings = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            ["bash", "-c", f"set -euo pipefail\n{text}"],
            cwd=folder / "work",
            env=kept | surroundings | {"COLUMNS": "100", "USER": "me", "DOCKER_BUILDKIT": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    return run
