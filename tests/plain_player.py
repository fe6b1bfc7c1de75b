"""The files of the player of tests/bundles/, which starts in a third of the time of a player that imports NumPy."""

from pathlib import Path

TESTS = Path(__file__).parent
PROTOCOL = TESTS.parent / "images" / "templates" / "bare" / "protocol.py"
FILES = (TESTS / "bundles" / "players" / "player.py", PROTOCOL)
BEHAVIOURS = ("honest", "noop", "constant")
"""The behaviours that it shares with the players of tests/e2e/."""
