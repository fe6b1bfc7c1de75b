"""`sparring cluster check` and `sparring cluster sweep`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.application.kubernetes import preflight
from orchestrator.application.rounds.execution_target import ClusterAccess
from orchestrator.cli import console, doctor
from orchestrator.cli.console import ExitCode, Json, out, safe_text
from orchestrator.errors import UsageError
from orchestrator.executors.kubernetes import connectivity_probe
from orchestrator.executors.kubernetes.run_probes import ProbeTimeouts
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import contest_file
from orchestrator.sandboxes.base import Check, CheckStatus

_PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options that select the cluster."""

    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="How to reach the cluster; default: this pod's, or KUBECONFIG.")
    ] = None
    context: Annotated[str | None, typer.Option("--context", help="The context of that file.")] = None

    @property
    def access(self) -> ClusterAccess:
        """These options as the use cases take them."""
        return ClusterAccess(self.kubeconfig, self.context)


@dataclass(frozen=True, slots=True)
class PreflightFlags:
    """Options for the checks that start pods."""

    look_only: Annotated[
        bool, typer.Option("--look-only", help="Make no pods: read, and show what the last network probe found.")
    ] = False
    reach: Annotated[
        list[str] | None,
        typer.Option("--reach", help="NAME=tcp:HOST:PORT that players must not reach either; may be repeated."),
    ] = None
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", help="The folder for the round, to try that it is on the claim.", file_okay=False),
    ] = None
    patience: Annotated[
        float | None, typer.Option("--patience", min=1, help="Seconds that each probe may take; default: 300.")
    ] = None


@console.command
def check(
    contest: Annotated[
        Path | None, typer.Argument(help="The contest file whose needs count, or its folder.", metavar="CONTEST")
    ] = None,
    which: ClusterOptions = ClusterOptions(),
    probing: PreflightFlags = PreflightFlags(),
    as_json: Json = False,
) -> None:
    """Check a cluster before a round: rights, volume, classes, quota, image pull, and that players reach nobody.

    Exits with 1 when a check fails. A round needs a network probe that was blocked within the last 24 hours.
    """
    more = [connectivity_probe.parse_target(text) for text in probing.reach or []]
    if any(result.name.startswith(connectivity_probe.LISTENER_NAME) for result in more):
        raise UsageError(
            f"--reach: a name that begins with {connectivity_probe.LISTENER_NAME} is the probe's own; take another"
        )
    if probing.look_only:
        given = {"--out": probing.out_dir, "--reach": probing.reach, "--patience": probing.patience}
        console.refuse_ignored(given, "--look-only makes no pods; leave one of them out")
    read = None if contest is None else Contest(contest_file(contest))
    checks: list[Check] = []
    options = preflight.PreflightOptions(
        more, probing.out_dir, ProbeTimeouts(probing.patience or _PATIENCE), make_pods=not probing.look_only
    )
    for result in preflight.preflight_checks(read, which.access, options):
        checks.append(result)
        if not as_json:
            doctor.print_checks([result])
    failed = any(result.status is CheckStatus.FAIL for result in checks)
    if as_json:
        console.print_json({"ok": not failed, "checks": doctor.check_rows(checks)})
    if failed:
        raise typer.Exit(ExitCode.FAILED)


@console.command
def sweep(
    place: Annotated[
        Path, typer.Argument(help="A round's --out folder, or the contest file of several.", metavar="DIR|CONTEST")
    ],
    which: ClusterOptions = ClusterOptions(),
    held: Annotated[
        bool, typer.Option("--held", help="Also where a controller holds the round, which plays them again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove the Jobs of a round, or of all rounds of a contest, from the cluster. What was played is kept."""
    result = preflight.cleanup_jobs(place, which.access, include_held=held)
    if as_json:
        console.print_json({"jobs": result.total_jobs, "rounds": result.jobs_by_round})
        return
    out.print(f"{result.total_jobs} Jobs removed")
    for of, count in result.jobs_by_round.items():
        out.print(f"  round {safe_text(of)}: {count}")
