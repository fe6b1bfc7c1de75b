"""Detects thrashing: a sandbox that only reads its own program again and again, because its memory is used up.

The page cache of a sandbox's files counts against its memory limit. A program that fills the limit with its own data
leaves no room for the pages of its code: the kernel evicts each page for the next one, and reads it again. Since the
kernel can always evict a page, it kills no process, and the sandbox makes no progress for seconds or minutes. The
backend kills such a sandbox as out of memory, as the kernel does when it cannot evict any more pages.
"""

import time
from collections.abc import Callable

from orchestrator.sandboxes.linux.cgroup_counters import FileCache

SAMPLE_SECONDS = 0.25
_TURNOVERS = 10.0
"""How many times a second the sandbox reads its whole page cache again. A program with enough memory that reads a large
file repeatedly stays below 1, because each reading takes time; a thrashing one was measured at 100."""
_SAMPLES = 3
"""The number of samples in a row that have to reach `_TURNOVERS`."""


class ThrashingDetector:
    """Samples a sandbox's page cache.

    Args:
        read: returns the page cache; None if it is not known.
        clock: returns seconds of a monotonic clock.
    """

    def __init__(self, read: Callable[[], FileCache | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._read, self._clock = read, clock
        self._last: tuple[float, FileCache] | None = None
        self._in_a_row = 0

    def is_thrashing(self) -> bool:
        """Returns whether the last `_SAMPLES` samples show thrashing; takes a sample if one is due."""
        now = self._clock()
        if self._last is not None and now - self._last[0] < SAMPLE_SECONDS:
            return False
        cache = self._read()
        if cache is None:
            return False
        if self._last is not None:
            then, before = self._last
            turnovers = (cache.refaulted - before.refaulted) / max(cache.size, 1) / (now - then)
            self._in_a_row = self._in_a_row + 1 if turnovers >= _TURNOVERS else 0
        self._last = (now, cache)
        return self._in_a_row >= _SAMPLES
