"""Reads the output of a running program line by line."""

import subprocess
from collections.abc import Callable
from typing import IO

from orchestrator.domain.text import printable


def read_lines(
    program: subprocess.Popen[str], printed: IO[str] | None, longest: int, on_line: Callable[[str], None]
) -> None:
    """Calls `on_line` with each line of one of a program's streams, except empty lines, until the stream ends.

    Lines are cut to `longest` characters.

    If an exception ends the reading, such as KeyboardInterrupt, kills the program.
    """
    try:
        for line in printed or ():
            if text := printable(line.rstrip(), longest):
                on_line(text)
    except BaseException:
        program.kill()
        raise
