"""The wheel, installed and used as somebody uses it who has no clone."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("orchestrator", "sparring")
SHIPPED = {
    "docs": "docs",
    "examples": "examples",
    "images": "images",
    "k8s": "k8s",
    "schemas": "schemas",
    "tests/hostile": "hostile",
    "tools": "tools",
}
"""Folders of the repository, and what they are called below orchestrator/_share."""
CONTEST = """\
sparring: 1
contest: small
title: Ten digits
format: tournament
task:
  name: digits
  dataset: {kind: digits, first: 10}
  budget: {norm: linf, epsilon: 51}
rules: {clean_floor: null}
baselines:
  - {builtin: attack_noise}
submissions:
  - {folder: my_defence, team: Mine}
"""
COMMANDS = """
import json, shlex, sys
from typer.testing import CliRunner
from orchestrator.cli.app import app
done = [CliRunner().invoke(app, shlex.split(line)) for line in sys.argv[1:]]
assert all(each.exit_code == 0 for each in done), [each.output for each in done]
print(json.dumps([each.stdout for each in done]))
"""
SITE = """
import re
from pathlib import Path
from orchestrator.web import setup
from orchestrator.web.settings import WebSettings
setup.configure(WebSettings(contest=Path("cup"), address="http://localhost"))
setup.make_tables()
from django.test import Client
page = Client(headers={"host": "localhost"}).get("/")
found = page.content.decode()
for address in re.findall('(?:href|src)="(/static/[^"]+)"', found):
    print(address.rpartition("/")[2], Client(headers={"host": "localhost"}).get(address).status_code)
print(page.status_code)
"""


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel in it, and a folder from which it is used."""

    wheel: Path
    programs: Path
    folder: Path

    def run(self, *words: str, code: int = 0) -> str:
        """Runs a program of the environment and returns what it printed; nothing leads it to the repository."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment |= {"PATH": f"{self.programs}{os.pathsep}{environment['PATH']}", "COLUMNS": "200"}
        done = subprocess.run(
            [self.programs / words[0], *words[1:]],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def sparring(self, *commands: str) -> list[str]:
        """Runs commands in one process, since a start takes a second, and returns what each printed."""
        return json.loads(self.run("python", "-c", COMMANDS, *commands))


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    """The wheel of the working tree in an environment of its own. Other packages come from the running environment.

    A line of a .pth file adds their folder to the path, and no .pth file in that folder is read: so an editable
    installation there is not seen.
    """
    work = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = ["wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", str(work), str(ROOT)]
    subprocess.run([*pip, *build], check=True, timeout=600)
    (wheel,) = work.glob("sparring-*.whl")
    place = work / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=600)
    (library,) = place.glob("lib/python*/site-packages")
    (library / "other_packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ["install", "--no-index", "--no-deps", "--no-compile", str(wheel)]
    subprocess.run([*pip, "--python", str(place / "bin" / "python"), *install], check=True, timeout=600)
    (work / "empty").mkdir()
    return Installed(wheel, place / "bin", work / "empty")


@pytest.mark.xdist_group("installed")
def test_the_wheel_holds_what_an_installation_needs(installed) -> None:
    """Every file of the packages and of the shipped folders is in the wheel under its name, and nothing else is."""
    places = {name: name for name in PACKAGES} | {
        folder: f"orchestrator/_share/{name}" for folder, name in SHIPPED.items()
    }
    wanted = {
        f"{place}/{path.relative_to(ROOT / folder)}"
        for folder, place in places.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert len(wanted) > 1000
    with zipfile.ZipFile(installed.wheel) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert wanted - held == set()
    assert held - wanted == set()


@pytest.mark.xdist_group("installed")
def test_a_participant_needs_no_clone(installed) -> None:
    """A submission is made, explained, checked and played with the installed command alone."""
    places = installed.run(
        "python", "-c", "import orchestrator, sparring; print(orchestrator.__file__, sparring.__file__)"
    )
    assert all(place.startswith(str(installed.programs.parent)) for place in places.split())
    assert installed.run("sparring", "--version").startswith("sparring ")
    (installed.folder / "small.yaml").write_text(CONTEST)
    (explained, *_, checked, _played) = installed.sparring(
        "explain deadline",
        "submission init attack my_attack --framework pytorch",
        "submission init defence my_defence",
        "submission check my_defence",
        "round run small.yaml --out small --allow-unisolated",
    )
    assert "no complete answer before the deadline" in explained
    assert "it would be received" in checked
    assert (installed.folder / "small" / "report" / "index.html").is_file()


@pytest.mark.xdist_group("installed")
def test_an_organizer_needs_no_clone(installed) -> None:
    """A contest is made and checked, its site has its pages and files, and the sandbox is tested."""
    (*_, demo, _made, cup) = installed.sparring(
        "copy examples images k8s schemas/protocol.md",
        "contest check examples/demo/contest.yaml",
        "contest init cup",
        "contest check cup",
    )
    assert demo.startswith("fine")
    assert cup.startswith("fine")
    site = installed.run("python", "-c", SITE).split()
    assert site[-1] == "200"
    assert site[:-1].count("200") == len(site) // 2 > 0
    words = ("sandbox", "check", "--backend", "process", "--only", "upload-symlink")
    assert "1 contained" in installed.run("sparring", *words, code=1)  # 1, since this backend has no walls
