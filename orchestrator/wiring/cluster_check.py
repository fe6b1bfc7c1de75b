"""A cluster is checked before a round, and swept after it."""

import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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

ON_CLAIM = ("blobs", "cluster")
"""What of an `--out` folder drivers see."""
ANSWERS = 20.0
"""Seconds after which a cluster that does not answer is away: somebody waits at a terminal."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is tried: that a player's pod does not reach `more` either, that `out` is on the claim, with which patience.

    Without `probes` no pods are made, and the last probe's record is shown. `out` is None where nobody asks.
    """

    more: Sequence[Target] = ()
    out: Path | None = None
    patience: Patience = field(default_factory=Patience)
    probes: bool = True


def checks(contest: Contest | None, where: OnCluster, asked: Asked) -> Iterator[Check]:
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
    wanted = Wanted.of(settings, probe.match_pod(settings, policy))
    cluster = where.connect(settings.namespace).hurried(ANSWERS)
    yield from check.examine(cluster, wanted)
    if not asked.probes:
        verdict = probe.fresh(probing.last(cluster), _now())
        yield Check("network probe", CheckStatus.OK if verdict.fine else CheckStatus.FAIL, verdict.why or "holds")
        return
    name = "probe" if contest is None else contest.file.contest
    made = Probes(settings, secrets.token_hex(4), name, policy.runtime)
    with _marked(asked.out) as files:
        yield probing.storage(cluster, made, asked.patience, files)
    seen = probing.network(cluster, made, [METADATA, *asked.more], asked.patience)
    if seen.outcome is not Outcome.UNKNOWN:  # which proves nothing, and so takes nothing away from an earlier proof
        probing.keep(cluster, seen.record(_who(), _now()), settings.namespace)
    yield probing.told(seen)
    if (counted := probing.counted(seen, policy.runtime)) is not None:
        yield counted


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


@contextmanager
def _marked(out: Path | None) -> Iterator[list[str]]:
    """Puts a file each into what of an `--out` folder has to be on the claim, yields their names, and removes them.

    Raises:
        UsageError: one of its folders is not there, or cannot be written.
    """
    paths: list[Path] = []
    try:
        for part in ON_CLAIM if out is not None else ():
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
