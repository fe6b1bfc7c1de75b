"""Lists a round's objects for a controller: two lists in each pass, and events if a wait needs an explanation."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from orchestrator.executors.kubernetes.api import EVENTS, JOBS, PODS, Api
from orchestrator.executors.kubernetes.api_response import Object
from orchestrator.executors.kubernetes.attempt_status import AttemptState, AttemptStatus
from orchestrator.executors.kubernetes.watch_wakeup import ChangeNotifier


@dataclass(frozen=True)
class Snapshot:
    """A round's Jobs by name, its pods by the uid of their Job, and the last warning about each by its name."""

    jobs: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, list[Object]] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)

    def pods_of(self, job: Object | None) -> Sequence[Object]:
        """Returns the pods of a Job."""
        return () if job is None else self.pods.get(job["metadata"]["uid"], ())


class ClusterView:
    """Lists the objects of one selector, and waits for them to change.

    Args:
        api: the API of their namespace.
        labels: the label selector of the round.
        event_list_interval: seconds between two lists of events.
        clock: returns seconds that never go back.
    """

    def __init__(self, api: Api, labels: str, event_list_interval: float, clock: Callable[[], float]) -> None:
        self._api, self._labels, self._event_list_interval, self._clock = api, labels, event_list_interval, clock
        self._notifier = ChangeNotifier(api, labels)
        self._events_listed_at: float | None = None
        self._warnings: dict[str, str] = {}
        self._deleted: set[str] = set()

    def refresh(self, statuses: Iterable[AttemptStatus]) -> Snapshot:
        """Returns the objects as of now; Jobs are listed before pods, so that a Job's last pod is not missed.

        `statuses` are the last ones of the attempts: events are listed if one of them needs an explanation.
        """
        job_list = self._api.search(JOBS, self._labels)
        self._notifier.watch_from(JOBS, job_list.version)
        jobs = {each["metadata"]["name"]: each for each in job_list.items}
        pod_list = self._api.search(PODS, self._labels)
        self._notifier.watch_from(PODS, pod_list.version)
        pods: dict[str, list[Object]] = {}
        for pod in pod_list.items:
            for owner in pod["metadata"].get("ownerReferences") or ():
                pods.setdefault(owner["uid"], []).append(pod)
        self._deleted &= jobs.keys()
        names = jobs.keys() | {pod["metadata"]["name"] for pod in pod_list.items}
        return Snapshot(
            {name: job for name, job in jobs.items() if name not in self._deleted},
            pods,
            self._recent_warnings(statuses, names),
        )

    def _recent_warnings(self, statuses: Iterable[AttemptStatus], names: set[str]) -> dict[str, str]:
        """Returns the last warning about each of these, listed only while an attempt waits without an explanation."""
        puzzling = any(status.state is AttemptState.WAITING and not status.is_explained for status in statuses)
        now = self._clock()
        if puzzling and (self._events_listed_at is None or now - self._events_listed_at >= self._event_list_interval):
            self._events_listed_at = now
            events = self._api.search(EVENTS, fields="type=Warning").items
            self._warnings = {}
            for event in sorted(events, key=lambda item: str(item.get("lastTimestamp") or item.get("eventTime") or "")):
                name = (event.get("involvedObject") or {}).get("name")
                if name in names:
                    self._warnings[name] = f"{event.get('reason')}: {event.get('message')}"
        return self._warnings if puzzling else {}

    def delete_job(self, name: str) -> None:
        """Deletes a Job and its pods, once; a list from before that does not show it again."""
        if name not in self._deleted:
            self._api.delete(JOBS, name)
            self._deleted.add(name)

    def wait_for_change(
        self, min_seconds: float, max_seconds: float, poll_seconds: float, has_news: Callable[[], bool]
    ) -> None:
        """Waits until something has changed, at most `max_seconds` seconds; see `ChangeNotifier.wait_for_change`."""
        self._notifier.wait_for_change(min_seconds, max_seconds, poll_seconds, has_news)

    def close(self) -> None:
        """Ends the watches."""
        self._notifier.close()
