"""Faults that a test can set: wrong answers, broken connections, cut watches, and stale lists.

API concepts, "Retry-After" of 429; API Priority and Fairness; "Resource versions": a list with resourceVersion 0 may
be served from a cache that lags behind, and a watch may end at any time.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from . import status
from .status import ApiError
from .store import Store


@dataclass
class Fault:
    """A fault for certain requests; `when` is `before`, `after` or `instead`.

    `after`: the request is carried out, but the answer is the error. `instead`: the connection ends without an answer.
    """

    code: int
    verb: str | None
    resource: str | None
    name: str | None
    times: int
    retry_after: int
    when: str

    def meant(self, verb: str, resource: str, name: str) -> bool:
        """Returns whether the fault is for a request."""
        wanted = ((self.verb, verb), (self.resource, resource), (self.name, name))
        return self.times > 0 and all(each in {None, found} for each, found in wanted)

    def error(self) -> ApiError:
        """Returns the answer."""
        made: dict[int, Callable[[], ApiError]] = {
            401: status.unauthorized,
            403: lambda: status.forbidden("", self.resource or "objects", self.name or "", "a test said so"),
            409: lambda: status.conflict("", self.resource or "objects", self.name or ""),
            410: lambda: status.expired("The resourceVersion for the provided list is too old."),
            429: lambda: status.too_many_requests(self.retry_after),
            500: lambda: status.internal("etcdserver: request timed out"),
            503: status.unavailable,
        }
        return made[self.code]()


class Disconnected(Exception):
    """The connection ends here, without an answer."""


class Faults:
    """The faults of one cluster."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[Fault] = []
        self._lock = threading.Lock()
        self._stale: dict[str, tuple[int, int]] = {}
        self.drops: dict[str | None, int] = {}
        self.seen: list[tuple[int, str, str]] = []
        self.retry_after = 1

    def next(
        self,
        code: int,
        *,
        verb: str | None = None,
        resource: str | None = None,
        name: str | None = None,
        times: int = 1,
        when: str = "before",
    ) -> None:
        """Answers the next requests of a kind with an error: 401, 403, 409, 410, 429, 500 or 503.

        `verb` is the API's (`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`), `resource` a plural, with
        its subresource as in `jobs/status`. `retry_after` is the wait in an answer of 429, in seconds. `when="after"`
        carries the request out first, as if the answer of a create were lost.
        """
        with self._lock:
            self._waiting.append(Fault(code, verb, resource, name, times, self.retry_after, when))

    def disconnect(
        self, *, verb: str | None = None, resource: str | None = None, times: int = 1, after: bool = False
    ) -> None:
        """Ends the next connections of a kind without an answer; with `after`, carries the requests out first."""
        with self._lock:
            self._waiting.append(Fault(0, verb, resource, None, times, 1, "lost" if after else "instead"))

    def take(self, verb: str, resource: str, name: str) -> Fault | None:
        """Returns the fault for a request, None for none, and counts one use."""
        with self._lock:
            found = next((each for each in self._waiting if each.meant(verb, resource, name)), None)
            if found is not None:
                found.times -= 1
                self.seen.append((found.code, verb, resource))
            self._waiting = [each for each in self._waiting if each.times > 0]
            return found

    def drop_watches(self, resource: str | None = None) -> None:
        """Cuts the watches of a resource, or all, in the middle of their stream."""
        with self._store.changed:
            self.drops[resource] = self.drops.get(resource, 0) + 1
            self._store.changed.notify_all()

    def dropped(self, resource: str) -> int:
        """Returns how often the watches of a resource were cut."""
        return self.drops.get(resource, 0) + self.drops.get(None, 0)

    def stale_lists(self, resource: str, times: int = 1) -> None:
        """Answers the next lists of a resource with the state of now, whatever changes until then."""
        with self._lock:
            self._stale[resource] = (self._store.revision, times)

    def stale(self, resource: str) -> int | None:
        """Returns the revision that a list is to be served at, if it is not the newest."""
        with self._lock:
            revision, times = self._stale.pop(resource, (0, 0))
            if times > 1:
                self._stale[resource] = (revision, times - 1)
            return revision if times else None
