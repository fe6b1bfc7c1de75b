"""A cluster is checked before a round, and swept after it."""

import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.backends.base import Check, CheckStatus
from orchestrator.cluster import check, probe, probing, sweeping
from orchestrator.cluster.check import Wanted
from orchestrator.cluster.probe import METADATA, Outcome, Probes
from orchestrator.cluster.probing import Patience
from orchestrator.cluster.reaching import Target
from orchestrator.cluster.settings import ClusterSettings
from orchestrator.cluster.sweeping import Swept
from orchestrator.domain.events import Event, RoundOpened
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.errors import UsageError
from orchestrator.intake.contest_file import Contest
from orchestrator.wiring.folders import RoundFolder
from orchestrator.wiring.hosting import OnCluster

ANSWERS = 20.0
"""Seconds after which a cluster that does not answer is away: somebody waits at a terminal."""


def checks(
    contest: Contest | None, where: OnCluster, more: Sequence[Target], patience: Patience, *, probes: bool
) -> Iterator[Check]:
    """Yields what a cluster has for a contest, and what it lacks.

    Args:
        contest: whose settings and limits count; without one, the defaults.
        where: the cluster.
        more: what a player's pod must not reach either.
        patience: how long each probe may take.
        probes: whether pods are made; else the last probe's record is shown.

    Raises:
        UsageError: there is no cluster to talk to, or the settings ask for the impossible.
        ClusterUnavailable: it does not answer.
    """
    settings = ClusterSettings() if contest is None else contest.file.cluster
    policy = SandboxPolicy() if contest is None else contest.file.sandbox_policy()
    wanted = Wanted.of(settings, probe.match_pod(settings, policy))
    cluster = where.connect(settings.namespace).hurried(ANSWERS)
    yield from check.examine(cluster, wanted)
    if not probes:
        verdict = probe.fresh(probing.last(cluster), _now())
        yield Check("network probe", CheckStatus.OK if verdict.fine else CheckStatus.FAIL, verdict.why or "holds")
        return
    name = "probe" if contest is None else contest.file.contest
    made = Probes(settings, secrets.token_hex(4), name, policy.runtime)
    yield probing.storage(cluster, made, patience)
    seen = probing.network(cluster, made, [METADATA, *more], patience)
    if seen.outcome is not Outcome.UNKNOWN:  # which proves nothing, and so takes nothing away from an earlier proof
        probing.keep(cluster, seen.record(_who(), _now()), settings.namespace)
    yield probing.told(seen)


def sweep(place: Path, where: OnCluster, *, held: bool) -> Swept:
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
            settings, selector = _of(next((entry.event for entry in ledger.read()), None))
        finally:
            ledger.close()
    else:
        contest = Contest(place)
        settings, selector = contest.file.cluster, sweeping.of_contest(contest.file.contest)
    return sweeping.sweep(where.connect(settings.namespace).hurried(ANSWERS), selector, held=held)


def _of(opened: Event | None) -> tuple[ClusterSettings, str]:
    """Returns where a round's Jobs are, as its first event says, and their selector."""
    if not isinstance(opened, RoundOpened):
        raise UsageError("the round was not opened, so it has no Jobs")
    return ClusterSettings.model_validate(opened.contest.get("cluster") or {}), sweeping.of_round(opened.commitment)


def _who() -> str:
    """Returns who runs this, for the record: in a pod, which has no users by name, the pod."""
    return f"{os.environ.get('USER') or os.getuid()}@{socket.gethostname()}"


def _now() -> datetime:
    return datetime.now(UTC)
