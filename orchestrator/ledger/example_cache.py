"""The adversarial examples of each attack, assembled once and shared by all readers in this process.

Jobs, scoring and reports read the same pictures repeatedly, several at a time. The arrays are mapped from unnamed
temporary files: the kernel may write them out if memory is short, and a file disappears with its last reader.
"""

import os
import tempfile
import threading
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain import events
from orchestrator.domain.outcomes import Forfeit
from orchestrator.domain.samples import AdversarialExamples, Pixels
from orchestrator.errors import StoreFault
from orchestrator.ledger.stores.base import Blobs, get_array

S = TypeVar("S", bound=np.generic)

_FIRST_FILE_BYTES = 1024**2
_ARRAYS = ("index", "candidates", "forfeits", "violations", "distances")


class ExampleCache:
    """Reads adversarial examples from the blobs of an attack's steps. It is safe for threads."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._memory = _MappedMemory()
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[list[tuple[str, ...]], AdversarialExamples]] = {}

    def read(
        self, key: tuple[str, str], steps: Sequence[events.StepFinished], clean: Pixels | None = None
    ) -> AdversarialExamples:
        """Returns the adversarial examples of these steps, in the order of the samples. The arrays are read-only.

        Args:
            key: the attack, and the defence that it made the pictures for, "" for all defences.
            steps: the steps.
            clean: the task's pictures [n, c, h, w], used where the attack played none; None if it played all of them.

        Raises:
            StoreFault: a blob is missing or damaged, or its pictures differ in shape or type from those of the other
                steps.
        """
        digests = [tuple(step.blobs[name] for name in _ARRAYS) for step in steps]
        with self._lock:  # another thread that reads the same key waits here
            known = self._known.get(key)
            if known is None or known[0] != digests:
                known = self._known[key] = digests, self._read(steps, clean)
            return known[1]

    def _read(self, steps: Sequence[events.StepFinished], clean: Pixels | None) -> AdversarialExamples:
        indexes, forfeits, violations, distances = (
            [get_array(self._blobs, step.blobs[name]) for step in steps]
            for name in ("index", "forfeits", "violations", "distances")
        )
        places = np.concatenate(indexes)
        count = len(places) if clean is None else len(clean)
        pixels = None
        if clean is not None:
            pixels = self._memory.array(clean.shape)
            pixels[:] = clean
        for step, index in zip(steps, indexes, strict=True):
            candidates = get_array(self._blobs, step.blobs["candidates"])
            if pixels is None:
                pixels = self._memory.array((count, *candidates.shape[1:]))
            if candidates.dtype != np.uint8 or candidates.shape != (len(index), *pixels.shape[1:]):
                found = f"{candidates.dtype} {candidates.shape}, not u8 {(len(index), *pixels.shape[1:])}"
                raise StoreFault(f"the pictures of step {step.step} of job {step.job} are {found}")
            pixels[index] = candidates
        assert pixels is not None  # noqa: S101  an attack has steps
        examples = AdversarialExamples(
            pixels=pixels,
            forfeits=_placed(places, np.concatenate(forfeits), np.full(count, Forfeit.NONE, np.uint8)),
            violations=_placed(places, np.concatenate(violations), np.zeros(count, np.bool_)),
            distances=_placed(places, np.concatenate(distances), np.full(count, np.nan)),
        )
        for array in (examples.pixels, examples.forfeits, examples.violations, examples.distances):
            array.flags.writeable = False
        return examples


def _placed(places: NDArray[np.integer], values: NDArray[S], into: NDArray[S]) -> NDArray[S]:
    """Returns `into` with the values at their places."""
    into[places] = values
    return into


class _MappedMemory:
    """Allocates u8 arrays in a few files, each twice as large as the last: every mapping keeps its file open."""

    def __init__(self) -> None:
        self._free = np.empty(0, np.uint8)
        self._next_bytes = _FIRST_FILE_BYTES

    def array(self, shape: tuple[int, ...]) -> Pixels:
        """Returns a new array; in plain memory if no file of that size can be made."""
        size = int(np.prod(shape))
        if size > len(self._free):
            self._free = _mapped_file(max(size, self._next_bytes))
            self._next_bytes = 2 * len(self._free)
        taken, self._free = self._free[:size], self._free[size:]
        return taken.reshape(shape)


def _mapped_file(size: int) -> NDArray[np.uint8]:
    try:
        with tempfile.TemporaryFile() as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk fails here, not by a signal later
            return np.memmap(file, np.uint8, "r+", shape=(size,)).view(np.ndarray)
    except OSError:  # no folder to write to, or no room in it
        return np.empty(size, np.uint8)
