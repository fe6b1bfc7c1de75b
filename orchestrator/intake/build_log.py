"""What a builder said: kept in a file, shown to who waits, and its last lines for the error."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.errors import UsageError

MAX_BYTES = 16 * 1024**2
"""Bytes of a log that are kept: a step may write for as long as it runs."""
MAX_SHOWN_LINES = 5000
"""Lines that are shown while it runs; the file has more."""
TAIL_LINES = 20


class BuildLog:
    """One build's words. Call it with each line, which is printable."""

    def __init__(self, path: Path, write: Callable[[str], object], show: Callable[[str], object]) -> None:
        self.path = path
        self._write_text, self._show_line = write, show
        self._bytes = self._lines = 0
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def __call__(self, line: str) -> None:
        """Takes a line."""
        self._tail.append(line)
        self._lines += 1
        self._bytes += len(line.encode()) + 1
        if self._lines <= MAX_SHOWN_LINES:
            self._show_line(line)
        if self._bytes <= MAX_BYTES:
            self._write_text(line + "\n")

    @property
    def is_cut(self) -> bool:
        """Whether not every line was shown."""
        return self._lines > MAX_SHOWN_LINES

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines, those that the file has no room for too."""
        return tuple(self._tail)


@contextmanager
def open_build_log(path: Path, show: Callable[[str], object] = lambda _: None) -> Iterator[BuildLog]:
    """Gives a log that is written to a file, which is made anew. Raises UsageError when it cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write the log {path}: {error.strerror}; give another --log") from error
    with file:
        yield BuildLog(path, file.write, show)
