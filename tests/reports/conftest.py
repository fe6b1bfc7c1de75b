"""Fixtures for tests of the results."""

from collections.abc import Callable
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def document_text() -> Callable[[str], str]:
    """Returns the text of a document in docs/."""
    return lambda name: (DOCS / name).read_text("utf-8")
