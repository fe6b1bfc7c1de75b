"""A cluster is checked before a round, and swept after it."""

import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.application.rounds.execution_target import ClusterAccess
from orchestrator.domain.access import AccessKind
from orchestrator.domain.events import Event, RoundOpened
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.errors import UsageError
from orchestrator.executors.kubernetes import cleanup, cluster_check, probe_job, run_probes
from orchestrator.executors.kubernetes.cleanup import CleanupResult
from orchestrator.executors.kubernetes.cluster_check import Requirements
from orchestrator.executors.kubernetes.connectivity_probe import Target
from orchestrator.executors.kubernetes.probe_job import METADATA_TARGET, NetworkOutcome, ProbeJobs
from orchestrator.executors.kubernetes.run_probes import ProbeTimeouts
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import contest_file
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.sandboxes.base import Check, CheckStatus

CLAIM_FOLDERS = ("blobs", "cluster")
"""What of an `--out` folder drivers see."""
API_TIMEOUT_SECONDS = 20.0
"""Seconds after which a cluster that does not answer is away: somebody waits at a terminal."""


_SHARED_POD = Check(
    "query jobs",
    CheckStatus.WARN,
    "an attack that queries has a pod with its defence, and Kubernetes gives both one loopback and one IPC namespace",
    "where submissions may have agreed to speak past the broker, play on docker or runc; "
    "see `sparring explain threat-model`",
)
"""What no setting of a pod can mend, said to whoever plays a contest with `access`."""


@dataclass(frozen=True, slots=True)
class PreflightOptions:
    """What is tried, and with which patience.

    A player's pod must not reach `extra_targets` either, and `round_folder` has to be on the claim.

    Without `make_pods` no pods are made, and the last probe's record is shown. `round_folder` is None where nobody
    asks.
    """

    extra_targets: Sequence[Target] = ()
    round_folder: Path | None = None
    timeouts: ProbeTimeouts = field(default_factory=ProbeTimeouts)
    make_pods: bool = True


def preflight_checks(contest: Contest | None, where: ClusterAccess, asked: PreflightOptions) -> Iterator[Check]:
    """Yields what a cluster has for a contest, and what it lacks.

    Args:
        contest: whose settings and limits count; without one, the defaults.
        where: the cluster.
        asked: what is tried.

    Raises:
        UsageError: there is no cluster to talk to, or the settings ask for the impossible.
        ClusterUnavailable: it does not answer.
    """
    settings = ClusterSettings() if contest is None else contest.file.cluster
    policy = SandboxPolicy() if contest is None else contest.file.sandbox_policy()
    # The largest pod of the contest: where attacks query, one with two players.
    queries = contest is not None and contest.file.access.kind is not AccessKind.NONE
    largest = probe_job.match_pod_spec(settings, policy, has_attack=queries)
    requirements = Requirements.from_pod_spec(settings, largest)
    cluster = where.connect(settings.namespace).with_patience(API_TIMEOUT_SECONDS)
    yield from cluster_check.check_cluster(cluster, requirements)
    if queries:
        yield _SHARED_POD
    if not asked.make_pods:
        verdict = probe_job.judge_record(run_probes.last_record(cluster), _now())
        yield Check("network probe", CheckStatus.OK if verdict.allowed else CheckStatus.FAIL, verdict.reason or "holds")
        return
    name = "probe" if contest is None else contest.file.contest
    probes = ProbeJobs(settings, secrets.token_hex(4), name, policy.runtime)
    with _marker_files(asked.round_folder) as files:
        yield run_probes.probe_storage(cluster, probes, asked.timeouts, files)
    seen = run_probes.probe_network(cluster, probes, [METADATA_TARGET, *asked.extra_targets], asked.timeouts)
    if (
        seen.outcome is not NetworkOutcome.UNKNOWN
    ):  # which proves nothing, and so takes nothing away from an earlier proof
        run_probes.save_record(cluster, seen.to_record(_operator_name(), _now()), settings.namespace)
    yield run_probes.network_check(seen)
    if (counted := run_probes.counted(seen, policy.runtime)) is not None:
        yield counted


def cleanup_jobs(place: Path, where: ClusterAccess, *, include_held: bool) -> CleanupResult:
    """Removes the Jobs of one round, or of all rounds of a contest file.

    Raises:
        UsageError: there is neither at `place`, or a controller holds a round.
        Rejected: the contest file cannot be read.
        ClusterUnavailable: the cluster does not answer.
    """
    if place.is_dir():
        folder = RoundFolder(place)
        folder.require()
        ledger = folder.ledger()
        try:
            settings, selector = _settings_and_selector(next((entry.event for entry in ledger.read()), None))
        finally:
            ledger.close()
    else:
        contest = Contest(contest_file(place))
        settings, selector = contest.file.cluster, cleanup.contest_selector(contest.file.contest)
    return cleanup.delete_jobs(
        where.connect(settings.namespace).with_patience(API_TIMEOUT_SECONDS), selector, include_held=include_held
    )


@contextmanager
def _marker_files(out: Path | None) -> Iterator[list[str]]:
    """Puts a file each into what of an `--out` folder has to be on the claim, yields their names, and removes them.

    Raises:
        UsageError: one of its folders is not there, or cannot be written.
    """
    paths: list[Path] = []
    try:
        for part in CLAIM_FOLDERS if out is not None else ():
            path = Path(out or "") / part / f".probe-{secrets.token_hex(8)}"
            try:
                path.touch(0o644, exist_ok=False)
            except OSError as error:
                raise UsageError(
                    f"--out: {path.parent} cannot be written: {error.strerror or error}; mount the claim's folder there"
                ) from error
            paths.append(path)
        yield [f"{path.parent.name}/{path.name}" for path in paths]
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def _settings_and_selector(opening: Event | None) -> tuple[ClusterSettings, str]:
    """Returns where a round's Jobs are, as its first event says, and their selector."""
    if not isinstance(opening, RoundOpened):
        raise UsageError("the round was not opened, so it has no Jobs")
    return ClusterSettings.model_validate(opening.contest.get("cluster") or {}), cleanup.round_selector(
        opening.commitment
    )


def _operator_name() -> str:
    """Returns who runs this, for the record: in a pod, which has no users by name, the pod."""
    return f"{os.environ.get('USER') or os.getuid()}@{socket.gethostname()}"


def _now() -> datetime:
    return datetime.now(UTC)
