"""`sparring pod`: the commands that run inside pods. The Jobs of `--engine kubernetes` call them, not people."""

import gc
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import logs
from orchestrator.cli import console
from orchestrator.cli.console import ExitCode, out


@console.command
def play(
    job: Annotated[Path, typer.Option("--job", help="The attempt's folder on the volume.", file_okay=False)],
    blobs: Annotated[Path, typer.Option("--blobs", help="The round's blobs on the volume.", file_okay=False)],
    io: Annotated[Path, typer.Option("--io", help="The folder of FIFOs that the pod's containers share.")],
    attack_io: Annotated[
        Path | None, typer.Option("--attack-io", help="The same of the attack, where it queries the player.")
    ] = None,
    as_json: console.Json = False,
) -> None:
    """Play the job of this pod with its players, and write the result into the job's folder."""
    from orchestrator.application.rounds import pod_driver  # noqa: PLC0415  a probe does not need it
    from orchestrator.executors.kubernetes.shared_volume import DriverOutcome  # noqa: PLC0415  a probe does not need it

    gc.enable()
    logs.configure_logging(json_lines=True, verbose=True, quiet=False)
    outcome = pod_driver.play_job(
        pod_driver.DriverPaths(job, blobs, io, attack_io), os.environ.get("HOSTNAME", "driver")
    )
    if as_json:
        console.print_json({"outcome": outcome.value})
    else:
        out.print(outcome.value)
    if outcome is DriverOutcome.FAULT:
        raise typer.Exit(ExitCode.INFRASTRUCTURE)


def group(*, probes: bool = True) -> typer.Typer:
    """Returns the commands; without `probes`, does not import what only the probes need."""
    commands = typer.Typer(no_args_is_help=True, help="What runs inside the pods of a cluster.")
    if probes:
        from orchestrator.cli import pod_probe  # noqa: PLC0415  see above

        commands.command("probe", epilog="Example: sparring pod probe --storage /work")(pod_probe.probe)
    commands.command("play", epilog="Example: sparring pod play --job /work/job --blobs /work/blobs --io /io")(play)
    commands.callback()(_nothing)
    return commands


def _nothing() -> None:
    """What runs inside the pods of a cluster."""


def main() -> None:
    """Runs the commands of this group: `sparring pod ...`. For `play`, imports run without garbage collection."""
    if probes := sys.argv[2:3] != ["play"]:
        gc.enable()
    console.run_app(group(probes=probes), sys.argv[2:], "sparring pod")
