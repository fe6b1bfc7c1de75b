"""`sparring` for shells: a fork of one process that has imported all commands, which takes most of a short command.

The first command in each folder of programs is started as people start it. The others get the words, environment,
folder, umask and standard streams of the program that the shell started, and end it as they end. Limits of the shell
(`ulimit`) and signals to that program do not reach them, and the width of their output is that of the server's COLUMNS.
"""

import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

CLIENT = Path(__file__).with_name("client.py")


@contextmanager
def server(root: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Runs a server with the modules of a clone; yields the path of its socket, which takes commands at once."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        path = Path(folder, "socket")
        listener.bind(str(path))
        listener.listen()
        command = [sys.executable, "-m", "tests.forked_commands.server", str(listener.fileno())]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,  # the server ends when this end of it is closed
            stdout=quiet,
            stderr=quiet,
            pass_fds=[listener.fileno()],
        ):
            yield path


def write_program(program: Path, address: Path) -> None:
    """Writes `sparring`, whose first start is a process of its own, and whose others the server of the socket forks."""
    python, started = shlex.quote(sys.executable), shlex.quote(f"{program}.started")
    program.write_text(
        "#!/bin/sh\n"
        f'mkdir {started} 2>/dev/null && exec {python} -m orchestrator "$@"\n'
        f'exec {python} -I -S {shlex.quote(str(CLIENT))} {shlex.quote(str(address))} "$@"\n'
    )
    program.chmod(0o755)
