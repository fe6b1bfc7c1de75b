"""A Kubernetes cluster as the place where rounds are played. Imported only to play there, since the import is slow."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from orchestrator import plugins
from orchestrator.application.rounds import pod_driver
from orchestrator.application.rounds.attempt_jobs import attempt_job
from orchestrator.application.rounds.execution_target import KUBERNETES, ClusterAccess
from orchestrator.domain.access import Access
from orchestrator.domain.events import ClusterProbed
from orchestrator.domain.ids import digest
from orchestrator.domain.tasks import Limits
from orchestrator.errors import UsageError
from orchestrator.execution.round_context import RoundContext
from orchestrator.executors.base import Executor
from orchestrator.executors.kubernetes import probe_job, run_probes
from orchestrator.executors.kubernetes.api import Client
from orchestrator.executors.kubernetes.controller import ControllerDeps
from orchestrator.executors.kubernetes.labels import RoundRef, round_label_value
from orchestrator.executors.kubernetes.lease import Lease, holder_identity
from orchestrator.executors.kubernetes.registry_backend import RegistryBackend
from orchestrator.executors.kubernetes.settings import MOST_JOBS, ClusterSettings
from orchestrator.executors.kubernetes.shared_volume import SharedVolume
from orchestrator.executors.kubernetes.status_file import StatusFile
from orchestrator.executors.kubernetes.timings import ControllerTimings
from orchestrator.files import owner_of_new_files
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.logs import get_logger
from orchestrator.sandboxes.base import Backend

_log = get_logger()
_LEASE_TIMEOUT = 8.0
"""The most seconds that a renewal of the lease may take: well below the time for which it lasts."""


class KubernetesTarget:
    """A Kubernetes cluster. See docs/run-on-kubernetes.md."""

    def __init__(self, contest: Contest, on: ClusterAccess, slots: int | None) -> None:
        if slots is not None and not 1 <= slots <= MOST_JOBS:
            raise UsageError(f"--slots {slots}: give at least 1 and at most {MOST_JOBS}")
        settings = contest.file.cluster
        self._settings = settings if slots is None else settings.model_copy(update={"max_jobs": slots})
        self._access = on
        self.backend: Backend = RegistryBackend(self._settings)

    def capacity(self, limits: Limits, access: Access) -> int:
        """Returns the most Jobs at a time; the cluster itself schedules by the resources that their pods request."""
        del limits, access
        return self._settings.max_jobs

    @contextmanager
    def acquire(self, folder: RoundFolder) -> Iterator["KubernetesSession"]:
        """Holds the round's lease, after waiting for a controller that has it; `round status` shows that it waits.

        Raises:
            UsageError: there is no cluster; or no probe shows that players reach nothing, and no reason is given.
            ClusterUnavailable: the cluster does not answer.
            ClusterRefused: the cluster refuses us.
        """
        settings = self._settings
        client = self._access.connect(settings.namespace)
        probe_event = _probe_event(run_probes.last_record(client), settings.namespace, self._access.override_reason)
        warn_about_file_owner(folder.exchange_path, settings.user)
        volume, status_file = SharedVolume(folder.exchange_path), StatusFile(folder.exchange_path)
        lease = Lease(
            client.with_patience(_LEASE_TIMEOUT),
            f"sparring-{round_label_value(digest(folder.secret()))}",
            holder_identity(),
        )
        with lease.acquire(status_file.write_note):
            yield KubernetesSession(
                self.backend, client, settings, volume, lease, status_file, probe_event, self._access.timings
            )


@dataclass(frozen=True)
class KubernetesSession:
    """A cluster on which this process plays one round, whose lease it holds."""

    backend: Backend
    client: Client
    settings: ClusterSettings
    shared_volume: SharedVolume
    lease: Lease
    status_file: StatusFile
    probe_event: ClusterProbed
    timings: ControllerTimings

    def with_devices(self, context: RoundContext) -> RoundContext:
        """Returns the context unchanged: the cluster chooses devices."""
        return context

    def executor(self, context: RoundContext) -> Executor:
        """Returns the Kubernetes executor for this round."""
        deps = ControllerDeps(
            api=self.client,
            shared_volume=self.shared_volume,
            round_ref=RoundRef(context.contest, context.round, context.task.name, digest(context.secret)),
            render_job=partial(attempt_job, context, self.settings),
            finish_without_player=partial(pod_driver.substitute_events, context.blobs),
            lease=self.lease,
            status_file=self.status_file,
            max_jobs=self.settings.max_jobs,
            uses_gpus=context.limits.gpus > 0,
            timings=replace(self.timings, pending_timeout=self.settings.pending_seconds),
        )
        loaded: Executor = plugins.load_plugin("executors", KUBERNETES)(deps)
        return loaded


def warn_about_file_owner(folder: Path, user: int) -> None:
    """Warns if the drivers' user does not own the files that this process writes, and so cannot read them.

    Raises StoreFault.
    """
    owner = owner_of_new_files(folder)
    if owner != user:
        remedy = f"run as user {user}" + (f", or set cluster.user to {owner}" if owner else "")
        _log.warning("written_by_another_user", folder=str(folder), owner=owner, drivers=user, remedy=remedy)


def _probe_event(last: probe_job.ProbeRecord | None, namespace: str, override: str) -> ClusterProbed:
    """Returns the event to record. Raises UsageError if no recent probe was blocked, and `override` is empty."""
    verdict = probe_job.judge_record(last, datetime.now(UTC))
    if not verdict.allowed and not override:
        raise UsageError(f"{verdict.reason}; or give --unproved-network REASON, which goes on record")
    return ClusterProbed(
        namespace=namespace,
        outcome="never" if last is None else last.outcome.value,
        probed_at="" if last is None else last.probed_at.isoformat(timespec="seconds"),
        override_reason="" if verdict.allowed else override,
    )
