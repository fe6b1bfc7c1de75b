"""Serves a contest: the web process, and beside it the worker that admits and plays, in a process of its own.

Only for a process that `setup.configure` made one of the service.
"""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta

import structlog
import uvicorn

from orchestrator.domain.contest_events import Role
from orchestrator.errors import UsageError
from orchestrator.web import invitations
from orchestrator.web.application import Application
from orchestrator.web.contest_site import current_site, web_settings
from orchestrator.web.page_cache import PageCache

FIRST_LINK_LIFETIME = timedelta(hours=24)
GRACE_SECONDS = 20
"""How long requests in hand may take once the service is to end."""
KEEP_ALIVE_SECONDS = 30
"""How long a connection may be idle: longer than the five seconds between two requests of pages that show progress."""
_RESTART_SECONDS = (1.0, 60.0)
"""How long a worker that ended by itself is left alone: at first, and at most."""
_log = structlog.get_logger()


def first_link() -> str | None:
    """Returns the address that makes whoever opens it the first organizer; None where there is an organizer.

    Raises StoreFault where the ledger cannot be read.
    """
    site = current_site()
    if site.season().roles.get(Role.ORGANIZER):
        return None
    return web_settings().address + invitations.invite(
        by=invitations.COMMAND_LINE, role=Role.ORGANIZER, now=site.clock(), lifetime=FIRST_LINK_LIFETIME
    )


def serve(host: str, port: int) -> None:
    """Answers requests until the process is told to end. Raises UsageError where the port is taken."""
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
    with closing(listening), suppress(KeyboardInterrupt):  # which is how it is told to end
        uvicorn.Server(config).run(sockets=[listening])


def _bound_socket(config: uvicorn.Config) -> socket.socket:
    try:
        bound = config.bind_socket()
    except SystemExit:
        raise UsageError(f"nothing can listen at {config.host}:{config.port}; give another --port") from None
    # asyncio does so for sockets that name their protocol, which uvicorn's do not. Without it the end of an answer
    # waits for the acknowledgement of its beginning, which the other side holds back for 40 ms.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


@contextmanager
def running_worker(options: Sequence[str]) -> Iterator[None]:
    """Keeps a worker beside the service: `sparring work` with these options. One that ends is started again."""
    ended = threading.Event()
    current: list[subprocess.Popen[bytes]] = []

    def keep() -> None:
        wait, most = _RESTART_SECONDS
        while not ended.is_set():
            with subprocess.Popen([sys.executable, "-m", "orchestrator", "work", *options]) as worker:
                current[:] = [worker]
                status = worker.wait()
            if not ended.is_set():
                # Ctrl-C and a service manager tell both processes to end, in whatever order.
                tell = _log.error if status else _log.info
                tell("worker_ended", status=status, restart_seconds=wait)
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
