"""Where a round is played: on this machine, or on a Kubernetes cluster. Everything else of a round knows neither."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from orchestrator import plugins
from orchestrator.arena.setting import Setting
from orchestrator.backends.base import Backend
from orchestrator.cluster import probe, probing
from orchestrator.cluster.admission import ClusterBackend
from orchestrator.cluster.api import Client
from orchestrator.cluster.controller import Pace, Site
from orchestrator.cluster.exchange import Exchange
from orchestrator.cluster.job import backstop, job
from orchestrator.cluster.lease import Lease, identity
from orchestrator.cluster.names import Attempt, Bout
from orchestrator.cluster.waiting import Board
from orchestrator.domain.events import ClusterProbed
from orchestrator.domain.ids import digest
from orchestrator.domain.tasks import Limits
from orchestrator.engines.base import Engine
from orchestrator.errors import UsageError
from orchestrator.intake.contest_file import Contest
from orchestrator.wiring import machine
from orchestrator.wiring.folders import RoundFolder

LOCAL, KUBERNETES = "local", "kubernetes"
_HURRY = 8.0
"""Seconds that a renewal of the lease may take: well below what it lasts."""


@dataclass(frozen=True, slots=True)
class OnCluster:
    """Which cluster, and why its network probe does not matter; `pace` is for tests that cannot wait."""

    kubeconfig: Path | None = None
    context: str | None = None
    override: str = ""
    pace: Pace = field(default_factory=Pace)

    def connect(self, namespace: str) -> Client:
        """Returns a connection. Raises UsageError where there is none to be made."""
        return Client.connect(namespace, self.kubeconfig, self.context)


class Hosting(Protocol):
    """Where a round is played. What cannot play is refused when it is made."""

    @property
    def backend(self) -> Backend:
        """What admits images."""
        ...

    def places(self, limits: Limits) -> int:
        """Returns how many jobs are played at a time."""
        ...

    def alone(self, folder: RoundFolder) -> AbstractContextManager[None]:
        """Waits until nobody else plays the round in a folder, as far as others may be on other machines."""
        ...

    def noted(self) -> ClusterProbed | None:
        """Returns what goes on record before play begins."""
        ...

    def engine(self, setting: Setting, folder: RoundFolder) -> Engine:
        """Returns the engine for a round, while this is `alone` with it."""
        ...


class Here:
    """This machine."""

    def __init__(self, backend: Backend, slots: int | None) -> None:
        self.backend, self._slots = backend, slots

    def places(self, limits: Limits) -> int:
        """Returns the slots. Raises like machine.devices."""
        return len(machine.devices(limits, self._slots))

    def alone(self, folder: RoundFolder) -> AbstractContextManager[None]:
        """Does nothing: who is on this machine is kept away by the folder's lock."""
        del folder
        return nullcontext()

    def noted(self) -> None:
        """Returns nothing."""

    def engine(self, setting: Setting, folder: RoundFolder) -> Engine:
        """Returns the local engine."""
        del folder
        return machine.engine(setting.limits, self._slots)


class Cluster:
    """A Kubernetes cluster. See docs/run-on-kubernetes.md.

    Raises:
        UsageError: there is no cluster, or its network was not shown to be closed and nobody said that it may be open.
        ClusterUnavailable: it does not answer.
    """

    def __init__(self, contest: Contest, where: OnCluster, slots: int | None) -> None:
        if slots is not None and slots < 1:
            raise UsageError(f"--slots {slots}: give at least 1")
        settings = contest.file.cluster
        self._settings = settings if slots is None else settings.model_copy(update={"most": slots})
        self._contest, self._where = contest, where
        self.backend: Backend = ClusterBackend(self._settings)
        self._client = where.connect(settings.namespace)
        self._noted = _probed(probing.last(self._client), settings.namespace, where.override)
        self._lease: Lease | None = None

    def places(self, limits: Limits) -> int:
        """Returns the most Jobs at a time."""
        del limits
        return self._settings.most

    @contextmanager
    def alone(self, folder: RoundFolder) -> Iterator[None]:
        """Holds the round's lease; another controller's is waited for, in words that `round status` shows."""
        board = Board(folder.exchange)
        of = Bout("", "", "", digest(folder.secret())).of
        lease = Lease(self._client.hurried(_HURRY), f"sparring-{of}", identity())
        with lease.acquire(board.note):
            self._lease = lease
            try:
                yield
            finally:
                self._lease = None

    def noted(self) -> ClusterProbed:
        """Returns what the last network probe said, and why that was overridden."""
        return self._noted

    def engine(self, setting: Setting, folder: RoundFolder) -> Engine:
        """Returns the Kubernetes engine for this round."""
        if self._lease is None:
            raise UsageError("a round on a cluster is played by whoever holds its lease")
        settings = self._settings
        bout = Bout(setting.contest, setting.round, setting.task.name, digest(setting.secret))

        def render(attempt: Attempt) -> dict[str, object]:
            limits, pictures = setting.limits, setting.task.count
            seconds = backstop(attempt.job, limits, pictures, settings.pending_seconds)
            return job(attempt, setting.images[attempt.job.submission], setting.policy, settings, seconds)

        made: Engine = plugins.find("engines", KUBERNETES)(
            Site(
                api=self._client,
                exchange=Exchange(folder.exchange),
                bout=bout,
                render=render,
                lease=self._lease,
                board=Board(folder.exchange),
                most=settings.most,
                pace=replace(self._where.pace, pending=settings.pending_seconds),
                clock=time.monotonic,
            )
        )
        return made


def _probed(last: probe.Record | None, namespace: str, override: str) -> ClusterProbed:
    """Returns what goes on record. Raises UsageError where no fresh probe was blocked, and no reason is given."""
    verdict = probe.fresh(last, datetime.now(UTC))
    if not verdict.fine and not override:
        raise UsageError(f"{verdict.why}; or give --unproved-network REASON, which goes on record")
    return ClusterProbed(
        namespace=namespace,
        outcome="never" if last is None else last.outcome.value,
        at="" if last is None else last.at.isoformat(timespec="seconds"),
        overridden="" if verdict.fine else override,
    )
