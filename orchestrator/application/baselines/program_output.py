"""What a program prints while it runs, line by line, for whoever waits for it."""

import subprocess
from collections.abc import Callable
from typing import IO

from orchestrator.domain.text import printable


def read_lines(
    program: subprocess.Popen[str], printed: IO[str] | None, longest: int, on_line: Callable[[str], None]
) -> None:
    """Calls `on_line` with each line of one of a program's streams, but for empty ones, until the stream ends.

    Lines are cut to `longest` characters.

    Where an error ends that, such as the operator's wish to end, the program is ended too.
    """
    try:
        for line in printed or ():
            if text := printable(line.rstrip(), longest):
                on_line(text)
    except BaseException:
        program.kill()
        raise
