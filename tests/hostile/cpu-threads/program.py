"""Four threads hash for two and a half seconds where 0.08 of a core is allowed."""

import hashlib
import os
import threading
import time
from contextlib import suppress

from _report import report

WORKERS, SECONDS = 4, 2.5
until = time.monotonic() + SECONDS


def work(core: int) -> None:
    """Hashes on one core, as far as it is let."""
    with suppress(OSError):
        os.sched_setaffinity(0, {core % (os.cpu_count() or 1)})
    block = bytes(65536)
    while time.monotonic() < until:
        hashlib.sha256(block).digest()


threads = [threading.Thread(target=work, args=(number,)) for number in range(WORKERS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
share = time.process_time() / SECONDS
report(share > 0.18, f"{share:.2f} cores used by {WORKERS} threads for {SECONDS} s")
