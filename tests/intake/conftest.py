"""Contest files and manifests, written line by line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import Rejected
from orchestrator.intake import manifest
from orchestrator.intake.contest_file import Contest

LINES = {
    "sparring": "1",
    "contest": "c",
    "title": "A contest",
    "format": "tournament",
    "task": "{name: t, dataset: {kind: digits}, budget: {norm: linf, epsilon: 8}}",
}


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    """Writes a contest file with one key a line in this order, and returns its path; None leaves a key out."""

    def written(**changes: str | None) -> Path:
        keys = LINES | changes
        text = "".join(f"{key}: {value}\n" for key, value in keys.items() if value is not None)
        path = tmp_path / "contest.yaml"
        path.write_text(text)
        return path

    return written


@pytest.fixture
def contest(write) -> Callable[..., Contest]:
    """Reads a contest file with these changes."""
    return lambda **changes: Contest(write(**changes))


@pytest.fixture
def problems(contest) -> Callable[..., list[str]]:
    """Returns the problems with which a contest file with these changes is refused, as text."""

    def refused(**changes: str | None) -> list[str]:
        with pytest.raises(Rejected) as caught:
            contest(**changes)
        return [str(problem) for problem in caught.value.problems]

    return refused


@pytest.fixture
def submitted(tmp_path) -> Callable[..., Path]:
    """Writes a submission's manifest and returns its folder."""

    def written(text: str | bytes, folder: str = "entry") -> Path:
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / manifest.FILE_NAME).write_bytes(text.encode() if isinstance(text, str) else text)
        return place

    return written
