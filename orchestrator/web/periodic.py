"""What the service does again and again while it answers people."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def repeated(name: str, act: Callable[[], object], seconds: float) -> Iterator[None]:
    """Does an act every so many seconds while the block lasts, in a thread of that name. The act raises nothing."""
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(seconds):
            act()
            connection.close()  # this thread's own, which would be idle until the next time

    thread = threading.Thread(target=keep, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
