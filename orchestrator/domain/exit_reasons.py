"""The reasons why a sandbox ended, as the ledger records them."""

from enum import StrEnum


class ExitReason(StrEnum):
    """Why a sandbox ended: what the backend observed, or the reason for which execution ended it."""

    CLEAN = "clean"
    """The player exited by itself with code 0."""
    CRASHED = "crashed"
    """The player exited by itself with another code, or by a signal of its own."""
    TIMED_OUT = "timed-out"
    """It was ended because its answer had not arrived at the deadline."""
    OUT_OF_MEMORY = "out-of-memory"
    """The kernel killed a process in it at its memory limit."""
    FLOODED = "flooded"
    """It was ended because it wrote more than a reply may have, or without a question."""
    STOPPED = "stopped"
    """It was ended for another fault, or because it was not needed any more."""
    LOST = "lost"
    """Its end was not caused by the player, or the cause is unknown."""
