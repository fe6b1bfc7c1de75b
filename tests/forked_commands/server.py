"""Imports all commands, and forks itself for each command that a client wants, until its standard input ends."""

import gc
import importlib
import marshal
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
from pathlib import Path

from orchestrator import cli


def serve(listener: socket.socket) -> list[str] | None:
    """Returns in each fork with the words of its command, and in this process with None when standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes that wait for commands
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        with connection:
            if os.fork():
                continue
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            words = take_over(connection)
            if (command := os.fork()) == 0:
                return words
            status = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
            connection.send(marshal.dumps(status))
            os._exit(0)
    return None


def take_over(connection: socket.socket) -> list[str]:
    """Takes the client's streams and surroundings for this process; returns the words of its command."""
    request, streams, _, _ = socket.recv_fds(connection, 1_000_000, 3)
    words, environment, folder, umask = marshal.loads(request)  # noqa: S302  from our client
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    os.umask(umask)
    return words


if __name__ == "__main__":
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "PYDANTIC_DISABLE_PLUGINS": "true"}  # as orchestrator/__main__.py does
    for module in pkgutil.iter_modules(cli.__path__, "orchestrator.cli."):
        importlib.import_module(module.name)
    gc.freeze()
    words = serve(socket.socket(fileno=int(sys.argv[1])))
    if words is not None:
        sys.argv[1:] = words
        sys.path[0] = str(Path.cwd())  # where `python -m` looks first
        runpy.run_module("orchestrator", run_name="__main__", alter_sys=True)
