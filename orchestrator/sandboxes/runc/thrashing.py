"""Whether a sandbox only reads its own program again and again, because its memory is used up.

The pages of a sandbox's files count against its memory limit. Who fills that with its own data leaves no room for the
pages of its program: each is thrown out for the next, and read again. Since something can always be thrown out, the
kernel does not kill anything, and the sandbox stands still for seconds or minutes. Then we do what the kernel does
where nothing is left to be thrown out: the sandbox is ended, as out of memory.
"""

import time
from collections.abc import Callable

from orchestrator.sandboxes.linux.cgroup_counters import FileCache

SAMPLE_SECONDS = 0.25
_TURNOVERS = 10.0
"""How often, in a second, all that is kept of files was read anew. A program that reads a large file over and over
stays below 1 where it has memory, for each reading takes its time; one that stands still was measured at 100."""
_SAMPLES = 3
"""How many samples in a row have to say so."""


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
