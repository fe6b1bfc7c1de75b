"""Which finding an id names."""

from pathlib import Path

import pytest

from orchestrator.application.findings.reproduce_finding import find_finding
from orchestrator.errors import UsageError


def test_a_round_without_findings_says_so() -> None:
    """An id that is looked up in a round without findings is answered by that fact, not by an empty list."""
    with pytest.raises(UsageError, match=r"^the round in round1 has no findings$"):
        find_finding([], "3f2a", Path("round1"))
