"""A hook for tests that need no more than commands: each container is its command, run on this machine.

Nothing is isolated. `fake` is for tests of the cluster itself: containers that end as their environment says, without a
process.
"""

import contextlib
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any


class Command:
    """A container's command as a process group of its own; its output goes to a file."""

    def __init__(self, command: list[str], environment: dict[str, str], output: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )

    def wait(self) -> int:
        """Waits for the end; returns the exit status."""
        return self._process.wait()

    def send_signal(self, number: int) -> None:
        """Signals the whole group, if it is there."""
        signal_group(self._process, number)

    def log(self) -> bytes:
        """Returns what was written so far."""
        return self._output.read_bytes()


class Commands:
    """The hook: `command` and `args` of a container, with its literal environment, and the machine's PATH."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, container: dict[str, Any], pod: dict[str, Any]) -> Command:
        """Starts a container."""
        environment = {each["name"]: each.get("value", "") for each in container.get("env") or ()}
        command = [*(container.get("command") or ()), *(container.get("args") or ())]
        output = self._folder / f"{pod['metadata']['uid']}-{container['name']}.log"
        return Command(command, {"PATH": os.environ["PATH"]} | environment, output)


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Signals a process's group, if it is there.

    While another thread waits for the process, `poll` cannot say whether it has ended: the kernel says it.
    """
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


class Fake:
    """A container without a process: it ends when it is told, or when it is signalled."""

    def __init__(self, code: int | None) -> None:
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._code = 0
        if code is not None:
            self.end(code)

    def end(self, code: int) -> None:
        """Ends it, if it has not ended before: the first end is the one that counts."""
        with self._lock:
            if not self._ended.is_set():
                self._code = code
                self._ended.set()

    def wait(self) -> int:
        """Waits for the end."""
        self._ended.wait()
        return self._code

    def send_signal(self, number: int) -> None:
        """Ends it by a signal; SIGTERM too, since it catches none."""
        if number in {signal.SIGTERM, signal.SIGKILL}:
            self.end(-number)


class Fakes:
    """The hook for fakes: those with `EXIT` in their environment end with it at once, others wait to be ended."""

    def __init__(self) -> None:
        self.running: dict[tuple[str, str], Fake] = {}

    def __call__(self, container: dict[str, Any], pod: dict[str, Any]) -> Fake:
        """Starts a container."""
        code = next((int(each["value"]) for each in container.get("env") or () if each["name"] == "EXIT"), None)
        made = Fake(code)
        self.running[pod["metadata"]["name"], container["name"]] = made
        return made
