"""The floors of the house hold, and an arrow drawn upwards is seen (docs/architecture.md)."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

LINT = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache"]

CRIMES = {
    "The house has floors: import downwards only": ("domain/text.py", "import orchestrator.cli.app"),
    "No cycles between siblings, at any depth": ("domain/ids.py", "import orchestrator.domain.plan"),
    "Plug-ins are reached by name, never imported": (
        "execution/attack_output_gate.py",
        "import orchestrator.formats.tournament.format",
    ),
    "The domain and the rules do no I/O and ask no clock": ("formats/tournament/format.py", "import time"),
    "Django stays in the web room": (
        "application/contests/teams.py",
        "import django",
    ),
    "The web room has no SQL of its own": ("web/rights.py", "import sqlite3"),
    "docker, kubernetes and torch stay in their files": ("execution/attack_output_gate.py", "import torch"),
}


def contracts(root: Path) -> list[dict]:
    """Returns the import contracts of pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]


@pytest.mark.slow
def test_the_import_contracts_hold(root) -> None:
    """Every arrow between our modules points downwards, and what is confined stays confined."""
    done = subprocess.run(LINT, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_contract_has_a_crime(root) -> None:
    """The test below tries each contract."""
    assert [contract["name"] for contract in contracts(root)] == list(CRIMES)


@pytest.mark.slow
@pytest.mark.parametrize("contract", CRIMES)
def test_a_contract_sees_its_crime(contract, root, tmp_path) -> None:
    """One forbidden import in one module breaks the contract that forbids it."""
    shutil.copytree(root / "orchestrator", tmp_path / "orchestrator", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", tmp_path)
    place, crime = CRIMES[contract]
    with (tmp_path / "orchestrator" / place).open("a", encoding="utf-8") as file:
        file.write(f"\n{crime}\n")
    done = subprocess.run(LINT, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(rf"^{re.escape(contract)} BROKEN", done.stdout, re.MULTILINE), done.stdout


def test_the_document_draws_the_same_floors(root, document) -> None:
    """docs/architecture.md shows the layers of the first contract, in their order."""
    drawn = document("architecture.md").split("```layers\n")[1].split("```")[0].splitlines()
    assert drawn == contracts(root)[0]["layers"]
