"""Runs functions periodically while the service answers requests."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def repeated(name: str, act: Callable[[], object], seconds: float) -> Iterator[None]:
    """Calls `act` every `seconds` while the block lasts, in a thread with this name. `act` must not raise."""
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(seconds):
            act()
            connection.close()  # this thread's own connection, which would be idle until the next call

    thread = threading.Thread(target=keep, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
