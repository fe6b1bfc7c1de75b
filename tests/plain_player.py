"""The files of the player of tests/bundles/, which starts in a third of the time of a player that imports NumPy."""

from pathlib import Path

TESTS = Path(__file__).parent
PROTOCOL = TESTS.parent / "images" / "templates" / "bare" / "protocol.py"
FILES = (TESTS / "bundles" / "players" / "player.py", PROTOCOL)
BEHAVIOURS = (
    *("honest", "noop", "constant", "chance", "crashes"),
    *("counter", "moody", "raw_label", "own_chance", "slow", "talks_behind"),
)
"""The behaviours for which tests of whole rounds take this player and not the one of tests/e2e/."""


def files(behaviour: str, otherwise: Path) -> tuple[Path, ...]:
    """Returns the files of a player with a behaviour: `FILES` if it has it, else only `otherwise`."""
    return FILES if behaviour in BEHAVIOURS else (otherwise,)
