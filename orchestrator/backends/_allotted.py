"""What this machine has to hand out to sandboxes: user ids, and how many files one may have open."""

import itertools
import resource
import threading
from pathlib import Path

_lock = threading.Lock()
_taken: set[int] = set()


def take_uid(first: int) -> int:
    """Returns a user id from `first` up that no other live sandbox of this process has.

    Some kernel counters are per user, and would talk from one sandbox to another.
    """
    with _lock:
        uid = next(number for number in itertools.count(first) if number not in _taken)
        _taken.add(uid)
        return uid


def free_uid(uid: int) -> None:
    """Takes a user id back."""
    _taken.discard(uid)


def most_files() -> int:
    """Returns the largest limit on open files that this process can give."""
    kernel = int(Path("/proc/sys/fs/nr_open").read_text("ascii"))
    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], kernel)
