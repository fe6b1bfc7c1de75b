"""The player of tests/bundles/ for other tests: it starts in a third of the time of one that needs NumPy."""

from pathlib import Path

TESTS = Path(__file__).parent
PROTOCOL = TESTS.parent / "images" / "templates" / "bare" / "protocol.py"
FILES = (TESTS / "bundles" / "players" / "player.py", PROTOCOL)
BEHAVIOURS = ("honest", "noop", "constant")
"""What it does as the players of tests/e2e/ do."""
