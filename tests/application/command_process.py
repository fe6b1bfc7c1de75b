"""Commands in processes of their own: forks of one process that has imported them, which takes most of a command.

A command can kill itself at its n-th change to files.
"""

import os
import signal
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

from orchestrator.__main__ import main
from tests.forkserver import CONTEXT

CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.chmod", "os.truncate", "sqlite3.connect"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Count:
    """An audit hook that counts changes to files and kills the process at one of them."""

    def __init__(self, last: int) -> None:
        self.done, self._last = 0, last

    def __call__(self, event: str, details: tuple) -> None:
        """Handles an audit event, before its action happens."""
        opens = event == "open" and len(details) > 2 and isinstance(details[2], int) and details[2] & WRITING
        if event in CHANGES or opens or event == "fcntl.flock":
            self.done += 1
            if self.done == self._last:
                os.kill(os.getpid(), signal.SIGKILL)


def start(words: list[str], output: Path) -> BaseProcess:
    """Starts a command, which writes its output and its errors to a file."""
    process = CONTEXT.Process(target=run, args=(words, dict(os.environ), output))
    process.start()
    return process


def run_until_killed(words: list[str], number: int, output: Path) -> tuple[int, int]:
    """Runs a command that kills itself at its n-th change to files, with 0 at none.

    Returns its exit status, negative for a signal, and how many changes it made.
    """
    told = output.with_name("told")
    told.write_text("0")
    process = CONTEXT.Process(target=count_changes, args=(words, dict(os.environ), number, output, told))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode, int(told.read_text())


def run(words: list[str], environment: dict[str, str], output: Path) -> None:
    """Becomes the command in a fork."""
    with output.open("w") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["sparring", *words]
    main()


def count_changes(words: list[str], environment: dict[str, str], number: int, output: Path, told: Path) -> None:
    """Becomes the command in a fork; writes the number of its changes to a file."""
    count = Count(number)
    sys.addaudithook(count)
    try:
        run(words, environment, output)
    finally:
        told.write_text(str(count.done))
