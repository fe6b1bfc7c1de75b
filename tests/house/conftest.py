"""What the tests of the house share: the repository's files."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEFT_BY_TOOLS = {"__pycache__", ".git", ".venv", ".hypothesis", "build", "dist"}


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def files() -> list[Path]:
    """Every file that is committed or would be; outside a checkout, every file that no tool left behind."""
    try:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
        found = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        found = [path for path in ROOT.rglob("*") if not LEFT_BY_TOOLS & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


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
