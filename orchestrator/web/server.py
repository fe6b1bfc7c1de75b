"""Serves a contest: runs the web server in this process, and the worker that admits and plays in another.

Only for a process that called `setup.configure`.
"""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta

import uvicorn

from orchestrator.domain.contest_events import Role
from orchestrator.errors import UsageError
from orchestrator.logs import get_logger
from orchestrator.web import invitations
from orchestrator.web.application import Application
from orchestrator.web.contest_site import current_site, web_settings
from orchestrator.web.page_cache import PageCache

FIRST_LINK_LIFETIME = timedelta(hours=24)
GRACE_SECONDS = 20
"""How long requests that are being answered may still take once the service is told to end."""
KEEP_ALIVE_SECONDS = 30
"""How long a connection may be idle: longer than the five seconds between two requests of a progress page."""
_RESTART_SECONDS = (1.0, 60.0)
"""How long to wait before a worker that ended by itself is started again: the first time, and at most."""
_log = get_logger()


def first_link() -> str | None:
    """Returns the link that makes the person who opens it the first organizer; None if there is an organizer.

    Raises StoreFault if the ledger cannot be read.
    """
    site = current_site()
    if site.season().roles.get(Role.ORGANIZER):
        return None
    return web_settings().address + invitations.invite(
        by=invitations.COMMAND_LINE, role=Role.ORGANIZER, now=site.clock(), lifetime=FIRST_LINK_LIFETIME
    )


def serve(host: str, port: int) -> None:
    """Answers requests until the process is told to end. Raises UsageError if nothing can listen at host and port."""
    config = uvicorn.Config(
        PageCache(Application()),
        host=host,
        port=port,
        lifespan="off",
        server_header=False,
        access_log=False,
        log_config=None,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    listening = _bound_socket(config)
    with closing(listening), suppress(KeyboardInterrupt):  # uvicorn raises it again after Ctrl-C ended the server
        uvicorn.Server(config).run(sockets=[listening])


def _bound_socket(config: uvicorn.Config) -> socket.socket:
    try:
        bound = config.bind_socket()
    except SystemExit:
        raise UsageError(f"nothing can listen at {config.host}:{config.port}; give another --port") from None
    # asyncio sets this option for sockets that name their protocol; uvicorn's do not. Without it the end of an answer
    # waits for the acknowledgement of its beginning, which the client delays by 40 ms.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


@contextmanager
def running_worker(options: Sequence[str]) -> Iterator[None]:
    """Runs a worker, `sparring work` with these options, while the block lasts. Starts it again if it ends."""
    ended = threading.Event()
    current: list[subprocess.Popen[bytes]] = []

    def keep() -> None:
        wait, most = _RESTART_SECONDS
        while not ended.is_set():
            with subprocess.Popen([sys.executable, "-m", "orchestrator", "work", *options]) as worker:
                current[:] = [worker]
                status = worker.wait()
            if not ended.is_set():
                # Ctrl-C and service managers signal both processes, in either order.
                log = _log.error if status else _log.info
                log("worker_ended", status=status, restart_seconds=wait)
                ended.wait(wait)
                wait = min(2 * wait, most)

    thread = threading.Thread(target=keep, name="worker", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        for worker in current:
            with suppress(ProcessLookupError):
                worker.terminate()
        thread.join(GRACE_SECONDS)
        for worker in current:
            if worker.poll() is None:
                worker.kill()
