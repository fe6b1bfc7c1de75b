"""Checks a cluster before a round, and removes Jobs from it after a round."""

import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
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
"""The subfolders of an `--out` folder that drivers see."""
API_TIMEOUT_SECONDS = 20.0
"""Seconds to wait for a cluster's answer: short, since a person waits at a terminal."""


_SHARED_POD = Check(
    "query jobs",
    CheckStatus.WARN,
    "an attack that queries has a pod with its defence, and Kubernetes gives both one loopback and one IPC namespace",
    "where submissions may have agreed to speak past the broker, play on docker or runc; "
    "see `sparring explain threat-model`",
)
"""A warning for contests with `access` about a risk that no setting of a pod removes."""


@dataclass(frozen=True, slots=True)
class PreflightOptions:
    """What is checked, and how long to wait.

    `extra_targets` are further addresses that a player's pod must not reach. `round_folder` is a folder that has to be
    on the claim, None to skip that check. Without `make_pods`, no pods are started, and the last probe's record counts.
    """

    extra_targets: Sequence[Target] = ()
    round_folder: Path | None = None
    timeouts: ProbeTimeouts = field(default_factory=ProbeTimeouts)
    make_pods: bool = True


def preflight_checks(contest: Contest | None, where: ClusterAccess, asked: PreflightOptions) -> Iterator[Check]:
    """Yields the checks whether a cluster has what a contest needs.

    Args:
        contest: the contest whose settings and limits are used; None: the defaults.
        where: the cluster.
        asked: what is checked.

    Raises:
        UsageError: the kubeconfig gives no cluster, or the settings are impossible.
        ClusterUnavailable: the cluster does not answer.
    """
    settings = ClusterSettings() if contest is None else contest.file.cluster
    policy = SandboxPolicy() if contest is None else contest.file.sandbox_policy()
    # The contest's largest pod: one with two players if attacks query.
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
    if seen.outcome is not NetworkOutcome.UNKNOWN:  # an unknown outcome proves nothing, so an earlier record stays
        run_probes.save_record(cluster, seen.to_record(_operator_name(), _now()), settings.namespace)
    yield run_probes.network_check(seen)
    if (counted := run_probes.counted(seen, policy.runtime)) is not None:
        yield counted


def cleanup_jobs(place: Path, where: ClusterAccess, *, include_held: bool) -> CleanupResult:
    """Removes the Jobs of one round, or of all rounds of a contest file.

    Raises:
        UsageError: `place` is neither a round's folder nor a contest file, or a controller holds a round's lease.
        Rejected: the contest file cannot be read.
        ClusterUnavailable: the cluster does not answer.
    """
    if place.is_dir():
        folder = RoundFolder(place)
        folder.require()
        with closing(folder.ledger()) as ledger:
            settings, selector = _settings_and_selector(next((entry.event for entry in ledger.read()), None))
    else:
        contest = Contest(contest_file(place))
        settings, selector = contest.file.cluster, cleanup.contest_selector(contest.file.contest)
    return cleanup.delete_jobs(
        where.connect(settings.namespace).with_patience(API_TIMEOUT_SECONDS), selector, include_held=include_held
    )


@contextmanager
def _marker_files(out: Path | None) -> Iterator[list[str]]:
    """Creates a file in each subfolder of an `--out` folder that has to be on the claim; yields their names.

    Removes the files on exit.

    Raises:
        UsageError: a subfolder does not exist, or cannot be written.
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
    """Returns a round's cluster settings from its first event, and the selector of its Jobs. Raises UsageError."""
    if not isinstance(opening, RoundOpened):
        raise UsageError("the round was not opened, so it has no Jobs")
    return ClusterSettings.model_validate(opening.contest.get("cluster") or {}), cleanup.round_selector(
        opening.commitment
    )


def _operator_name() -> str:
    """Returns the operator's name for the record, as user@host; in a pod without user names, the number of the user."""
    return f"{os.environ.get('USER') or os.getuid()}@{socket.gethostname()}"


def _now() -> datetime:
    return datetime.now(UTC)
