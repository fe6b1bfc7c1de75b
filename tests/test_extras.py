"""What an installation without an extra says: one line, with the command that installs it."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app
from orchestrator.reports import parquet

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "examples" / "demo" / "contest.yaml"
EXTRAS = {
    "digits": ("sklearn",),
    "parquet": ("pyarrow",),
    "postgresql": ("psycopg", "sqlalchemy"),
    "kubernetes": ("kubernetes",),
    "baselines": ("safetensors", "torch", "foolbox"),
    "web": ("django", "allauth", "csp", "ninja", "uvicorn"),
}
"""What the packages of each extra are imported as. `requests` and `urllib3` come with docker, which is required."""
REQUIRED_ALL_THE_SAME = {"requests", "urllib3"}
IMPORTERS = {
    "executors/kubernetes/api.py": {"kubernetes"},
    "ledger/stores/sql.py": {"psycopg", "sqlalchemy"},
    "reports/parquet.py": {"pyarrow"},
}
"""The modules outside of `web` that import an optional package, each behind the message that names its extra."""
IMPORT_ALL = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    sys.modules[name] = None
import orchestrator
for found in pkgutil.walk_packages(orchestrator.__path__, "orchestrator."):
    if not found.name.startswith(("orchestrator.web", "orchestrator._share")):
        importlib.import_module(found.name)
"""


@pytest.fixture
def without(monkeypatch):
    """Returns a function that hides the packages of an extra, as if they were not installed."""

    def hide(extra: str) -> None:
        for package in EXTRAS[extra]:
            for name in [package, *(each for each in sys.modules if each.startswith(package + "."))]:
                monkeypatch.setitem(sys.modules, name, None)
        if extra == "digits":
            found = importlib.metadata.distribution

            def absent(name: str) -> importlib.metadata.Distribution:
                if name == "scikit-learn":
                    raise importlib.metadata.PackageNotFoundError(name)
                return found(name)

            monkeypatch.setattr(importlib.metadata, "distribution", absent)

    return hide


def test_every_extra_is_looked_at() -> None:
    """The table names each extra that somebody may leave out, and has as many packages as pyproject.toml."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = {
        name: len([each for each in packages if not each.startswith(tuple(REQUIRED_ALL_THE_SAME))])
        for name, packages in declared.items()
        if name not in {"demo", "dev", "docs"}
    }
    assert {name: len(packages) for name, packages in EXTRAS.items()} == wanted


def test_optional_packages_are_imported_where_they_are_guarded() -> None:
    """Outside of `web`, which `serve` guards, no module but those that are listed imports an optional package."""
    optional = {package for packages in EXTRAS.values() for package in packages}
    line = re.compile(rf"^\s*(import|from) ({'|'.join(optional)})\b", re.MULTILINE)
    found: dict[str, set[str]] = {}
    for path in (ROOT / "orchestrator").rglob("*.py"):
        place = path.relative_to(ROOT / "orchestrator").as_posix()
        text = path.read_text()
        if place.startswith("web/") or not line.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in {name.split(".")[0] for name in names} & optional:
                found.setdefault(place, set()).add(name)
    assert found == IMPORTERS


@pytest.mark.slow
def test_every_module_is_imported_without_any_extra() -> None:
    """No module outside of `web` needs an optional package to be imported."""
    names = [package for packages in EXTRAS.values() for package in packages]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *names], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("digits", ["contest", "check", DEMO]),
        ("digits", ["submission", "check", DEMO.parent / "submissions" / "attack_corners"]),
        ("digits", ["round", "run", DEMO, "--out", "{}/out", "--allow-unisolated"]),
        ("digits", ["baseline", "train", "--out", "{}/w.safetensors"]),
        ("baselines", ["demo", "--out", "{}/out"]),
        ("baselines", ["demo", "--out", "{}/out", "--serve"]),
        ("baselines", ["baseline", "train", "--out", "{}/w.safetensors"]),
        ("postgresql", ["contest", "init", "{}/cup", "--database", "postgresql://localhost/cup"]),
        ("kubernetes", ["cluster", "check", DEMO]),
        ("kubernetes", ["round", "run", DEMO, "--out", "{}/out", "--engine", "kubernetes"]),
        ("web", ["serve", "{}"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(map(str, value[:2])),
)
def test_what_is_missing_is_named_with_the_command_that_installs_it(without, tmp_path, extra, words) -> None:
    """A command that needs an extra ends with one message and no traceback, and starts nothing before."""
    without(extra)
    done = CliRunner().invoke(app, [str(word).replace("{}", str(tmp_path)) for word in words])
    assert done.exit_code in {1, 2}, done.output
    installed_by = "demo" if extra == "baselines" else extra
    assert done.stderr.count(f"pip install 'sparring[{installed_by}]'") == 1
    assert extra != "baselines" or "https://download.pytorch.org/whl/cpu" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*/ledger.sqlite"))


def test_tables_of_parquet_are_asked_for_with_the_extra(without) -> None:
    """`report --parquet` asks before it writes anything."""
    without("parquet")
    with pytest.raises(Exception, match=r"pip install 'sparring\[parquet\]'"):
        parquet.require_pyarrow()
