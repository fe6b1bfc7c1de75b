"""The log of a build: written to a file, shown while it runs, with its last lines kept for an error message."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.errors import UsageError

MAX_BYTES = 16 * 1024**2
"""The most bytes of a log that are written to its file: a build step may write for as long as it runs."""
MAX_FOLDER_BYTES = 1024**3
"""The most bytes of the logs of strangers' builds together; the oldest are removed."""
MAX_SHOWN_LINES = 5000
"""The most lines that are shown while the build runs; the file may have more."""
TAIL_LINES = 20


class BuildLog:
    """The log of one build. Call it with each line, which must be printable."""

    def __init__(self, path: Path, write: Callable[[str], object], show: Callable[[str], object]) -> None:
        self.path = path
        self._write_text, self._show_line = write, show
        self._bytes = self._lines = 0
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def __call__(self, line: str) -> None:
        """Adds a line."""
        self._tail.append(line)
        self._lines += 1
        self._bytes += len(line.encode()) + 1
        if self._lines <= MAX_SHOWN_LINES:
            self._show_line(line)
        if self._bytes <= MAX_BYTES:
            self._write_text(line + "\n")

    @property
    def is_cut(self) -> bool:
        """Whether some lines were not shown."""
        return self._lines > MAX_SHOWN_LINES

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines, including those that did not fit into the file."""
        return tuple(self._tail)


@contextmanager
def open_build_log(path: Path, show: Callable[[str], object] = lambda _: None) -> Iterator[BuildLog]:
    """Opens a log that writes to a file, replacing an old one. Raises UsageError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write the log {path}: {error.strerror}; give another --log") from error
    with file:
        yield BuildLog(path, file.write, show)


def remove_oldest_logs(folder: Path) -> None:
    """Removes the oldest logs of a folder, so that another one fits within `MAX_FOLDER_BYTES`."""
    logs = []
    for path in folder.glob("*.log"):
        with suppress(OSError):  # another process removes some, too
            status = path.stat()
            logs.append((status.st_mtime_ns, status.st_size, path))
    left = MAX_FOLDER_BYTES - MAX_BYTES - sum(size for _, size, _ in logs)
    for _, size, path in sorted(logs):
        if left >= 0:
            return
        with suppress(OSError):
            path.unlink()
            left += size
