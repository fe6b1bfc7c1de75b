"""Tasks and their budgets, and what a player may use."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

MAX_VALUE_DIFFERENCE = 255
"""The largest difference between two values of pictures, in steps of 1/255."""


def require_whole_step(epsilon: Decimal) -> None:
    """Raises ValueError for a budget of less than one step. In either norm, no value of a picture could change.

    Somebody who writes such a number means a share of the range from 0 to 1, so the message converts it to steps of
    1/255.
    """
    if 0 < epsilon < 1:
        steps = max(1, round(epsilon * MAX_VALUE_DIFFERENCE))
        raise ValueError(f"{epsilon} is less than one step of 1/255; did you mean {steps}, which is {steps}/255?")


class Norm(StrEnum):
    """How the distance between two pictures is measured, on values 0..255."""

    LINF = "linf"
    L2 = "l2"


@dataclass(frozen=True, slots=True)
class Budget:
    """How far a candidate may be from its picture (rule A14).

    `epsilon` is in steps of 1/255: 8 means 8/255. For L2 it is the Euclidean length over all values of the picture.
    """

    norm: Norm
    epsilon: Fraction

    def is_attainable(self, values: int) -> bool:
        """Returns whether two pictures of so many values, which differ by at most 255 each, can be this far apart."""
        largest = MAX_VALUE_DIFFERENCE**2 * (values if self.norm is Norm.L2 else 1)
        return self.epsilon**2 <= largest


@dataclass(frozen=True, slots=True)
class Task:
    """One classification task: its pictures by digest, its classes and its budget.

    `shape` is channels, height, width of one picture; `count` how many pictures there are; `digest` the SHA-256 of
    pixels and labels.
    """

    name: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    count: int
    digest: str
    budget: Budget | None
    """None in formats without a budget, in which nobody perturbs pictures."""


class Isolation(StrEnum):
    """What one sandbox of a defence gets to see.

    `attack`: one version of each picture, so nothing can be memorised (the default); `picture`: a fresh sandbox for
    each picture; `round`: everything, which is cheaper and labelled weaker on the board.
    """

    ATTACK = "attack"
    ROUND = "round"
    PICTURE = "picture"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use. Each line says what happens when the limit is reached.

    Sizes are bytes, times are seconds of wall clock.
    """

    memory: int = 2 * 1024**3
    """Memory and swap together: the kernel kills the player (`out-of-memory`)."""
    cpus: float = 1.0
    """Cores' worth of time: the player is slowed down."""
    threads: int = 1
    """Threads of numerical libraries, set in the environment and sent in `hello`, the same on every backend."""
    pids: int = 256
    """Processes and threads: starting another fails with EAGAIN."""
    files: int = 1024
    """Open files: opening another fails with EMFILE."""
    tmp: int = 64 * 1024**2
    """Bytes under /tmp, the only place to write: writing fails with ENOSPC."""
    shm: int = 64 * 1024**2
    """Bytes of shared memory: writing fails with ENOSPC."""
    gpus: int = 0
    """GPUs of its own: 0 or 1."""
    ready_seconds: float = 120.0
    """From `hello` to `ready`: the sandbox is ended (`deadline`)."""
    perturb_seconds: float = 256 * 60.0
    """For a batch of `perturb_batch` pictures, fewer get their share (A15): what arrived counts."""
    perturb_batch: int = 64
    """The most pictures in one question to an attack."""
    classify_seconds: float = 10.0
    """For one question to a defence: the picture counts as misclassified (A7)."""
    classify_batch: int = 1
    """The most pictures in one question to a defence; more than one departs from A9 and is labelled."""
    restarts: int = 10
    """Sandboxes in a row that may fail to get ready: then the job asks nothing more (`gave-up`). Also how many
    sandboxes a determinism check, or each of its sessions that looks into a mismatch, replaces after faults."""
    fault_seconds: float = 3600.0
    """For the faults of a defence in one cell: the rest of the cell is not played (A7, `gave-up`)."""

    def perturb_limit(self, pictures: int) -> float:
        """Seconds for one question of `pictures` pictures (rule A15: n/64 of the limit for a batch of 64)."""
        return self.perturb_seconds * pictures / self.perturb_batch
