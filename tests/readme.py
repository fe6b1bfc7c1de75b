"""Runs the README's commands in a copy of the tree that is like a clone.

They are unchanged, but that two contests are played in less time: the small one with fewer sandboxes, and asking no
question again; the season so too, on fewer pictures than `contest init` writes, and without the attacks of many steps.
With SPARRING_SOAK both are played as written. All commands of `sparring` but the first are forks of one process (see
tests/forked_commands).
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests import forked_commands

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"(?:<!-- (?P<mark>.+?) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
SOAK = bool(os.environ.get("SPARRING_SOAK"))
SMALL = "title: A small contest on fifty digits\n"
QUICK_SMALL = f"{SMALL}isolation: round\nreplay: {{power: 0}}\n"
SEASON = "sparring contest init cup\n"
QUICK = {
    "isolation: attack": "isolation: round",
    "power: 0.9": "power: 0",
    "first: 200": "first: 50",
    "weights: {fgsm: 0.2, bim: 0.4, pgd: 0.4}": "weights: {fgsm: 1}",
    "- {builtin: attack_bim}": "# without an attack that the demo plays",
    "- {builtin: attack_pgd}": "# without another that the demo plays",
    "- {builtin: attack_cw_l2}": "# without the slowest, which the demo plays",
}
"""What the season's file says, and what it says instead."""
LEFT_BY_TOOLS = {"__pycache__", ".git", ".venv", ".hypothesis", "build", "dist"}


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and the comment before it."""

    kind: str
    text: str
    mark: str


@dataclass(frozen=True)
class Ran:
    """The output of commands on stdout, and the clone in which they ran."""

    clone: Path
    printed: str


def blocks() -> list[Block]:
    """Returns the README's fenced blocks."""
    found = FENCE.finditer((ROOT / "README.md").read_text("utf-8"))
    return [Block(each["kind"], each["text"], each["mark"] or "") for each in found]


def files() -> list[Path]:
    """Returns every file that is committed or not ignored; outside a checkout, every file that no tool has left."""
    try:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
        found = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        found = [path for path in ROOT.rglob("*") if not LEFT_BY_TOOLS & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def make_clone(copy: Path) -> None:
    """Copies every file that is committed or not ignored, and makes a .venv that uses this process's Python.

    `make` takes that environment as complete, so its targets run unchanged and install nothing.
    """
    for path in files():
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    programs = copy / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, module in {"python": "", "pip": "-m pip"}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n')
        (programs / name).chmod(0o755)
    (programs / "activate").write_text(f"export PATH={shlex.quote(str(programs))}:$PATH\n")
    for stamp in (".demo", ".dev"):
        (copy / ".venv" / stamp).touch()


def run(clone: Path, chosen: list[Block]) -> Ran:
    """Runs blocks in one shell, in the clone."""
    script = "\n".join(["set -euo pipefail", *(block.text if SOAK else _shortened(block.text) for block in chosen)])
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST", "LANG") if name in os.environ}
    environment = kept | {"PYTHONPATH": str(clone), "COLUMNS": "100"}
    with forked_commands.server(clone, environment) as address:
        forked_commands.write_program(clone / ".venv" / "bin" / "sparring", address)
        done = subprocess.run(
            ["bash", "-c", script], cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return Ran(clone, done.stdout)


def _shortened(text: str) -> str:
    """Returns a block's text with changes that play its contest in less time."""
    changes = "; ".join(f"s/{written}/{instead}/" for written, instead in QUICK.items())
    season = f"{SEASON}sed -i '{changes}' cup/contest.yaml\n"
    return text.replace(SMALL, QUICK_SMALL).replace(SEASON, season)
