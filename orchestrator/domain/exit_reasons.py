"""Why a sandbox ended, in the words of the record."""

from enum import StrEnum


class ExitReason(StrEnum):
    """Why a sandbox ended: what the backend saw, and what execution ended it for."""

    CLEAN = "clean"
    """The player exited by itself with code 0."""
    CRASHED = "crashed"
    """The player exited by itself with another code, or by a signal of its own."""
    TIMED_OUT = "timed-out"
    """It was ended because its answer was not there at the deadline."""
    OUT_OF_MEMORY = "out-of-memory"
    """The kernel killed in it at its memory limit."""
    FLOODED = "flooded"
    """It was ended because it wrote more than it was asked for."""
    STOPPED = "stopped"
    """It was ended for another fault, or because it was not needed any more."""
    LOST = "lost"
    """Not the player's doing, or nobody can tell whose."""
