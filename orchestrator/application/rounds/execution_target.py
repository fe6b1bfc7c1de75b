"""Where a round is played: on this machine, or on a Kubernetes cluster. Everything else of a round knows neither."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import structlog

from orchestrator import composition, plugins
from orchestrator.application.rounds import pod_driver
from orchestrator.domain.events import ClusterProbed
from orchestrator.domain.ids import digest
from orchestrator.domain.tasks import Limits
from orchestrator.errors import UsageError
from orchestrator.execution.round_context import RoundContext
from orchestrator.executors.base import Executor
from orchestrator.executors.kubernetes import probe_job, run_probes
from orchestrator.executors.kubernetes.api import Client
from orchestrator.executors.kubernetes.controller import ControllerDeps
from orchestrator.executors.kubernetes.job_manifest import active_deadline, render_job
from orchestrator.executors.kubernetes.labels import Attempt, RoundRef, round_label_value
from orchestrator.executors.kubernetes.lease import Lease, holder_identity
from orchestrator.executors.kubernetes.registry_backend import RegistryBackend
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.executors.kubernetes.shared_volume import SharedVolume
from orchestrator.executors.kubernetes.status_file import StatusFile
from orchestrator.executors.kubernetes.timings import ControllerTimings
from orchestrator.files import owner_of_new_files
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.sandboxes.base import Backend

LOCAL, KUBERNETES = "local", "kubernetes"
_log = structlog.get_logger()
_LEASE_TIMEOUT = 8.0
"""Seconds that a renewal of the lease may take: well below what it lasts."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Which cluster, and why its network probe does not matter; `pace` is for tests that cannot wait."""

    kubeconfig: Path | None = None
    context: str | None = None
    override: str = ""
    pace: ControllerTimings = field(default_factory=ControllerTimings)

    def connect(self, namespace: str) -> Client:
        """Returns a connection. Raises UsageError where there is none to be made."""
        return Client.connect(namespace, self.kubeconfig, self.context)


class TargetSession(Protocol):
    """Where one round is played, by nobody else."""

    @property
    def backend(self) -> Backend:
        """What admits images, and starts them or has them started."""
        ...

    @property
    def noted(self) -> ClusterProbed | None:
        """What goes on record before play begins."""
        ...

    def engine(self, setting: RoundContext) -> Executor:
        """Returns the engine for the round."""
        ...


class ExecutionTarget(Protocol):
    """Where rounds are played."""

    @property
    def backend(self) -> Backend:
        """What admits images."""
        ...

    def places(self, limits: Limits) -> int:
        """Returns how many jobs are played at a time."""
        ...

    def alone(self, folder: RoundFolder) -> AbstractContextManager[TargetSession]:
        """Waits until nobody else plays the round in a folder, as far as others may be on other machines.

        Raises:
            UsageError: it may not be played there.
            InfrastructureFault: there is nobody to ask.
        """
        ...


class LocalTarget:
    """This machine, where a folder's lock keeps others away."""

    noted: ClusterProbed | None = None

    def __init__(self, backend: Backend, slots: int | None) -> None:
        self.backend, self._slots = backend, slots

    def places(self, limits: Limits) -> int:
        """Returns the slots. Raises like machine.devices."""
        return len(composition.slot_devices(limits, self._slots))

    def alone(self, folder: RoundFolder) -> AbstractContextManager["LocalTarget"]:
        """Returns itself."""
        del folder
        return nullcontext(self)

    def engine(self, setting: RoundContext) -> Executor:
        """Returns the local engine."""
        return composition.make_local_executor(setting.limits, self._slots)


class KubernetesTarget:
    """A Kubernetes cluster. See docs/run-on-kubernetes.md."""

    def __init__(self, contest: Contest, on: ClusterAccess, slots: int | None) -> None:
        if slots is not None and slots < 1:
            raise UsageError(f"--slots {slots}: give at least 1")
        settings = contest.file.cluster
        self._settings = settings if slots is None else settings.model_copy(update={"most": slots})
        self._on = on
        self.backend: Backend = RegistryBackend(self._settings)

    def places(self, limits: Limits) -> int:
        """Returns the most Jobs at a time."""
        del limits
        return self._settings.most

    @contextmanager
    def alone(self, folder: RoundFolder) -> Iterator["KubernetesSession"]:
        """Holds the round's lease; another controller's is waited for, in words that `round status` shows.

        Raises:
            UsageError: there is no cluster; or no probe shows that players reach nothing, and no reason is given.
            ClusterUnavailable, ClusterRefused: it does not answer, or not us.
        """
        settings = self._settings
        client = self._on.connect(settings.namespace)
        noted = _probe_event(run_probes.last_record(client), settings.namespace, self._on.override)
        warn_about_file_owner(folder.exchange, settings.user)
        exchange, board = SharedVolume(folder.exchange), StatusFile(folder.exchange)
        lease = Lease(
            client.hurried(_LEASE_TIMEOUT), f"sparring-{round_label_value(digest(folder.secret()))}", holder_identity()
        )
        with lease.acquire(board.note):
            yield KubernetesSession(self.backend, client, settings, exchange, lease, board, noted, self._on.pace)


@dataclass(frozen=True)
class KubernetesSession:
    """A cluster that one round is played on, by whoever holds its lease."""

    backend: Backend
    client: Client
    settings: ClusterSettings
    exchange: SharedVolume
    lease: Lease
    board: StatusFile
    noted: ClusterProbed
    pace: ControllerTimings

    def engine(self, setting: RoundContext) -> Executor:
        """Returns the Kubernetes engine for this round."""

        def render(attempt: Attempt) -> dict[str, object]:
            seconds = active_deadline(attempt.job, setting.limits, setting.task.count, self.settings.pending_seconds)
            return render_job(attempt, setting.images[attempt.job.submission], setting.policy, self.settings, seconds)

        site = ControllerDeps(
            api=self.client,
            exchange=self.exchange,
            bout=RoundRef(setting.contest, setting.round, setting.task.name, digest(setting.secret)),
            render=render,
            unplayed=lambda assignment, why: pod_driver.substitute_events(assignment, setting.blobs, why),
            lease=self.lease,
            board=self.board,
            most=self.settings.most,
            gpus=setting.limits.gpus > 0,
            pace=replace(self.pace, pending=self.settings.pending_seconds),
        )
        made: Executor = plugins.load_plugin("executors", KUBERNETES)(site)
        return made


def warn_about_file_owner(folder: Path, user: int) -> None:
    """Warns where what this process writes is not the drivers' own, who then cannot read it. Raises StoreFault."""
    owner = owner_of_new_files(folder)
    if owner != user:
        remedy = f"run as user {user}" + (f", or set cluster.user to {owner}" if owner else "")
        _log.warning("written_by_another_user", folder=str(folder), owner=owner, drivers=user, remedy=remedy)


def _probe_event(last: probe_job.ProbeRecord | None, namespace: str, override: str) -> ClusterProbed:
    """Returns what goes on record. Raises UsageError where no fresh probe was blocked, and no reason is given."""
    verdict = probe_job.judge_record(last, datetime.now(UTC))
    if not verdict.fine and not override:
        raise UsageError(f"{verdict.why}; or give --unproved-network REASON, which goes on record")
    return ClusterProbed(
        namespace=namespace,
        outcome="never" if last is None else last.outcome.value,
        at="" if last is None else last.at.isoformat(timespec="seconds"),
        overridden="" if verdict.fine else override,
    )
