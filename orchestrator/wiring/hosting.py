"""Where a round is played: on this machine, or on a Kubernetes cluster. Everything else of a round knows neither."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import structlog

from orchestrator import plugins
from orchestrator.arena.setting import Setting
from orchestrator.backends.base import Backend
from orchestrator.cluster import probe, probing
from orchestrator.cluster.admission import ClusterBackend
from orchestrator.cluster.api import Client
from orchestrator.cluster.controller import Site
from orchestrator.cluster.exchange import Exchange
from orchestrator.cluster.job import backstop, job
from orchestrator.cluster.lease import Lease, identity
from orchestrator.cluster.names import Attempt, Bout, round_label
from orchestrator.cluster.pace import Pace
from orchestrator.cluster.settings import ClusterSettings
from orchestrator.cluster.waiting import Board
from orchestrator.domain.events import ClusterProbed
from orchestrator.domain.ids import digest
from orchestrator.domain.tasks import Limits
from orchestrator.engines.base import Engine
from orchestrator.errors import UsageError
from orchestrator.files import owner_in
from orchestrator.intake.contest_file import Contest
from orchestrator.wiring import driver, machine
from orchestrator.wiring.folders import RoundFolder

LOCAL, KUBERNETES = "local", "kubernetes"
_log = structlog.get_logger()
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


class Place(Protocol):
    """Where one round is played, by nobody else."""

    @property
    def backend(self) -> Backend:
        """What admits images, and starts them or has them started."""
        ...

    @property
    def noted(self) -> ClusterProbed | None:
        """What goes on record before play begins."""
        ...

    def engine(self, setting: Setting) -> Engine:
        """Returns the engine for the round."""
        ...


class Hosting(Protocol):
    """Where rounds are played."""

    @property
    def backend(self) -> Backend:
        """What admits images."""
        ...

    def places(self, limits: Limits) -> int:
        """Returns how many jobs are played at a time."""
        ...

    def alone(self, folder: RoundFolder) -> AbstractContextManager[Place]:
        """Waits until nobody else plays the round in a folder, as far as others may be on other machines.

        Raises:
            UsageError: it may not be played there.
            InfrastructureFault: there is nobody to ask.
        """
        ...


class Here:
    """This machine, where a folder's lock keeps others away."""

    noted: ClusterProbed | None = None

    def __init__(self, backend: Backend, slots: int | None) -> None:
        self.backend, self._slots = backend, slots

    def places(self, limits: Limits) -> int:
        """Returns the slots. Raises like machine.devices."""
        return len(machine.devices(limits, self._slots))

    def alone(self, folder: RoundFolder) -> AbstractContextManager["Here"]:
        """Returns itself."""
        del folder
        return nullcontext(self)

    def engine(self, setting: Setting) -> Engine:
        """Returns the local engine."""
        return machine.engine(setting.limits, self._slots)


class Cluster:
    """A Kubernetes cluster. See docs/run-on-kubernetes.md."""

    def __init__(self, contest: Contest, on: OnCluster, slots: int | None) -> None:
        if slots is not None and slots < 1:
            raise UsageError(f"--slots {slots}: give at least 1")
        settings = contest.file.cluster
        self._settings = settings if slots is None else settings.model_copy(update={"most": slots})
        self._on = on
        self.backend: Backend = ClusterBackend(self._settings)

    def places(self, limits: Limits) -> int:
        """Returns the most Jobs at a time."""
        del limits
        return self._settings.most

    @contextmanager
    def alone(self, folder: RoundFolder) -> Iterator["Leased"]:
        """Holds the round's lease; another controller's is waited for, in words that `round status` shows.

        Raises:
            UsageError: there is no cluster; or no probe shows that players reach nothing, and no reason is given.
            ClusterUnavailable, ClusterRefused: it does not answer, or not us.
        """
        settings = self._settings
        client = self._on.connect(settings.namespace)
        noted = _probed(probing.last(client), settings.namespace, self._on.override)
        warn_of_another_user(folder.exchange, settings.user)
        exchange, board = Exchange(folder.exchange), Board(folder.exchange)
        lease = Lease(client.hurried(_HURRY), f"sparring-{round_label(digest(folder.secret()))}", identity())
        with lease.acquire(board.note):
            yield Leased(self.backend, client, settings, exchange, lease, board, noted, self._on.pace)


@dataclass(frozen=True)
class Leased:
    """A cluster that one round is played on, by whoever holds its lease."""

    backend: Backend
    client: Client
    settings: ClusterSettings
    exchange: Exchange
    lease: Lease
    board: Board
    noted: ClusterProbed
    pace: Pace

    def engine(self, setting: Setting) -> Engine:
        """Returns the Kubernetes engine for this round."""

        def render(attempt: Attempt) -> dict[str, object]:
            seconds = backstop(attempt.job, setting.limits, setting.task.count, self.settings.pending_seconds)
            return job(attempt, setting.images[attempt.job.submission], setting.policy, self.settings, seconds)

        site = Site(
            api=self.client,
            exchange=self.exchange,
            bout=Bout(setting.contest, setting.round, setting.task.name, digest(setting.secret)),
            render=render,
            unplayed=lambda assignment, why: driver.unplayed(assignment, setting.blobs, why),
            lease=self.lease,
            board=self.board,
            most=self.settings.most,
            gpus=setting.limits.gpus > 0,
            pace=replace(self.pace, pending=self.settings.pending_seconds),
        )
        made: Engine = plugins.find("engines", KUBERNETES)(site)
        return made


def warn_of_another_user(folder: Path, user: int) -> None:
    """Warns where what this process writes is not the drivers' own, who then cannot read it. Raises StoreFault."""
    owner = owner_in(folder)
    if owner != user:
        remedy = f"run as user {user}" + (f", or set cluster.user to {owner}" if owner else "")
        _log.warning("written_by_another_user", folder=str(folder), owner=owner, drivers=user, remedy=remedy)


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
