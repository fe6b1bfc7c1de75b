"""Shortens a controller's wait for its next pass by watches and by polling the volume. Nothing is decided by it.

Watches may end at any time. The volume is polled because a driver's files change no object: its pod's status shows the
end a second or two later.
"""

import threading
import time
from collections.abc import Callable

from orchestrator.errors import ClusterRefused, ClusterUnavailable
from orchestrator.executors.kubernetes.api import Api, Kind, Watch
from orchestrator.logs import get_logger

_WATCH_SECONDS = 240.0
_RECONNECT_SECONDS = 1.0

_log = get_logger()


class ChangeNotifier:
    """Waits for changes of the objects of one label selector."""

    def __init__(self, api: Api, labels: str) -> None:
        self._api, self._labels = api, labels
        self._versions: dict[Kind, str] = {}
        self._watches: dict[Kind, Watch] = {}
        self._changed, self._closed = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._threads: dict[Kind, threading.Thread] = {}

    def watch_from(self, kind: Kind, version: str) -> None:
        """Records the version of the last list; the first call starts a watch from it."""
        self._versions[kind] = version
        if kind not in self._threads:
            thread = threading.Thread(target=self._follow_watch, args=(kind,), name=f"watch-{kind.plural}", daemon=True)
            self._threads[kind] = thread
            thread.start()

    def wait_for_change(
        self, min_seconds: float, max_seconds: float, poll_seconds: float, has_news: Callable[[], bool]
    ) -> None:
        """Waits until an object has changed, or `has_news` returns true; calls it every `poll_seconds` seconds.

        Waits at most `max_seconds`, and at least `min_seconds`, so that several changes are seen in one pass. If
        `has_news` returns true, it ends after the first poll.
        """
        started_at = time.monotonic()
        while (left := started_at + max_seconds - time.monotonic()) > 0:
            early = started_at + min_seconds - time.monotonic()
            if early > 0:
                self._closed.wait(min(poll_seconds, early))
            elif self._changed.wait(min(poll_seconds, left)):
                break
            if has_news():
                break
        self._changed.clear()

    def close(self) -> None:
        """Ends the watches."""
        self._closed.set()
        self._changed.set()
        with self._lock:
            for watch in self._watches.values():
                watch.close()
        for thread in self._threads.values():
            thread.join(5)

    def _follow_watch(self, kind: Kind) -> None:
        while not self._closed.is_set():
            try:
                watch = self._api.watch(kind, self._labels, self._versions[kind], _WATCH_SECONDS)
                with self._lock:
                    self._watches[kind] = watch
                if self._closed.is_set():
                    watch.close()
                for event in watch:
                    if event.get("type") != "BOOKMARK":
                        self._changed.set()
            except (ClusterUnavailable, ClusterRefused) as error:
                _log.debug("watch_ended", kind=kind.plural, reason=str(error))
            self._closed.wait(_RECONNECT_SECONDS)
