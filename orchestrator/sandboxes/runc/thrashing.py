"""Detects a sandbox that only reads its own program again and again, because its memory is used up.

The pages of a sandbox's files count against its memory limit. A program that fills the limit with its own data leaves
no room for the pages of its code: the kernel evicts each page for the next one, and reads it again. Since it can always
evict a page, the kernel kills nothing, and the sandbox stands still for seconds or minutes. Such a sandbox is ended as
out of memory, as the kernel does when it can evict nothing more.
"""

import time
from collections.abc import Callable

from orchestrator.sandboxes.linux.cgroup_counters import FileCache

SAMPLE_SECONDS = 0.25
_TURNOVERS = 10.0
"""How many times a second the sandbox reads as many bytes again as it keeps of files. A program that reads a large file
repeatedly stays below 1 if it has memory, since each reading takes time; one that stands still was measured at 100."""
_SAMPLES = 3
"""How many samples in a row have to reach that."""


class ThrashingDetector:
    """Looks at a sandbox's memory now and then.

    Args:
        read: what it keeps of files; None where that is not known.
        clock: seconds of a monotonic clock.
    """

    def __init__(self, read: Callable[[], FileCache | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._read, self._clock = read, clock
        self._last: tuple[float, FileCache] | None = None
        self._in_a_row = 0

    def is_thrashing(self) -> bool:
        """Returns whether the last samples, taken at this call where it is time for one, say so."""
        now = self._clock()
        if self._last is not None and now - self._last[0] < SAMPLE_SECONDS:
            return False
        found = self._read()
        if found is None:
            return False
        if self._last is not None:
            then, before = self._last
            turnovers = (found.refaulted - before.refaulted) / max(found.size, 1) / (now - then)
            self._in_a_row = self._in_a_row + 1 if turnovers >= _TURNOVERS else 0
        self._last = (now, found)
        return self._in_a_row >= _SAMPLES
