"""What a controller sees of a round's objects: two lists a look, and events when a wait needs explaining."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from orchestrator.executors.kubernetes.active_job import ActiveJob
from orchestrator.executors.kubernetes.api import EVENTS, JOBS, PODS, Api
from orchestrator.executors.kubernetes.api_response import Object
from orchestrator.executors.kubernetes.attempt_status import AttemptState
from orchestrator.executors.kubernetes.watch_wakeup import ChangeNotifier


@dataclass(frozen=True)
class Snapshot:
    """A round's Jobs by name, its pods by the uid of their Job, and the last warning about each by its name."""

    jobs: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, list[Object]] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)

    def pods_of(self, job: Object | None) -> Sequence[Object]:
        """Returns a Job's pods."""
        return () if job is None else self.pods.get(job["metadata"]["uid"], ())


class ClusterView:
    """Lists the objects of one selector, and waits for them to change.

    Args:
        api: where they are.
        labels: the selector of the round.
        pause: seconds between two lists of events.
        clock: seconds that never go back.
    """

    def __init__(self, api: Api, labels: str, pause: float, clock: Callable[[], float]) -> None:
        self._api, self._labels, self._pause, self._clock = api, labels, pause, clock
        self._hints = ChangeNotifier(api, labels)
        self._asked: float | None = None
        self._warnings: dict[str, str] = {}
        self._deleted: set[str] = set()

    def look(self, flights: Iterable[ActiveJob]) -> Snapshot:
        """Returns what is there now; Jobs before pods, so that a Job's last pod is not missed for a new one."""
        found = self._api.search(JOBS, self._labels)
        self._hints.since(JOBS, found.version)
        jobs = {each["metadata"]["name"]: each for each in found.items}
        held = self._api.search(PODS, self._labels)
        self._hints.since(PODS, held.version)
        pods: dict[str, list[Object]] = {}
        for pod in held.items:
            for owner in pod["metadata"].get("ownerReferences") or ():
                pods.setdefault(owner["uid"], []).append(pod)
        self._deleted &= jobs.keys()
        names = jobs.keys() | {pod["metadata"]["name"] for pod in held.items}
        return Snapshot(
            {name: job for name, job in jobs.items() if name not in self._deleted}, pods, self._warned(flights, names)
        )

    def _warned(self, flights: Iterable[ActiveJob], names: set[str]) -> dict[str, str]:
        """Returns the last warning about each of these, asked for only while something waits and nobody says why."""
        puzzling = any(each.standing.state is AttemptState.WAITING and not each.standing.explained for each in flights)
        now = self._clock()
        if puzzling and (self._asked is None or now - self._asked >= self._pause):
            self._asked = now
            events = self._api.search(EVENTS, fields="type=Warning").items
            self._warnings = {}
            for each in sorted(events, key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or "")):
                name = (each.get("involvedObject") or {}).get("name")
                if name in names:
                    self._warnings[name] = f"{each.get('reason')}: {each.get('message')}"
        return self._warnings if puzzling else {}

    def delete(self, name: str) -> None:
        """Deletes a Job and its pods, once: a list that is older than that does not bring it back."""
        if name not in self._deleted:
            self._api.delete(JOBS, name)
            self._deleted.add(name)

    def wait(self, least: float, most: float, glance: float, news: Callable[[], bool]) -> None:
        """Waits until something has changed, at most `most` seconds; see `Hints.wait`."""
        self._hints.wait(least, most, glance, news)

    def close(self) -> None:
        """Ends the watches."""
        self._hints.close()
