"""`sparring pod probe`: the part of a probe of `sparring cluster check` that runs inside its pod."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import console
from orchestrator.cli.console import ExitCode, out
from orchestrator.errors import SparringError, UsageError
from orchestrator.executors.kubernetes import connectivity_probe
from orchestrator.executors.kubernetes.connectivity_probe import ProbeReport, Reachability


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """What the probe does: exactly one of these options is given."""

    connect: Annotated[
        list[str] | None,
        typer.Option("--connect", help="NAME=tcp:HOST:PORT, or udp for a name server; may be repeated."),
    ] = None
    listen: Annotated[str | None, typer.Option("--listen", help="HOST,HOST:PORT to listen on for --seconds.")] = None
    control: Annotated[
        str | None, typer.Option("--control", help="HOST,HOST:PORT, each of which has to be reached within --seconds.")
    ] = None
    resolver: Annotated[
        Path, typer.Option("--resolver", help="With --control: where the pod's name servers are written.")
    ] = Path("/etc/resolv.conf")
    storage: Annotated[
        Path | None, typer.Option("--storage", help="A folder to write to and to read from.", file_okay=False)
    ] = None
    find: Annotated[
        list[str] | None,
        typer.Option("--find", help="With --storage: a file that has to be there within --seconds; may be repeated."),
    ] = None


@console.command
def probe(
    options: ProbeOptions = ProbeOptions(),
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How long to try each, or to listen.")] = 3.0,
    result_file: Annotated[Path, typer.Option("--tell", help="Write the result to this file.", dir_okay=False)] = Path(
        "/dev/termination-log"
    ),
    as_json: console.Json = False,
) -> None:
    """Try to reach what no player may reach, listen, or write to the volume; the termination message has the result."""
    try:
        report = _run_probe(options, seconds)
    except SparringError as error:
        connectivity_probe.write_report(ProbeReport(error=str(error)[:1000]), result_file)
        raise
    connectivity_probe.write_report(report, result_file)
    if as_json:
        console.print_json(report.model_dump(mode="json"))
    else:
        out.print(report.model_dump_json(), markup=False)
    if options.control and any(each.reachability is not Reachability.CONNECTED for each in report.results):
        raise typer.Exit(ExitCode.FAILED)


def _run_probe(options: ProbeOptions, seconds: float) -> ProbeReport:
    if sum(each is not None for each in (options.connect, options.listen, options.control, options.storage)) != 1:
        raise UsageError("give one of --connect, --listen, --control and --storage")
    if options.connect is not None:
        targets = [
            *connectivity_probe.targets_from_environment(os.environ),
            *map(connectivity_probe.parse_target, options.connect),
        ]
        return ProbeReport(
            results=connectivity_probe.try_targets(targets, seconds), counters=connectivity_probe.counters()
        )
    if options.control is not None:
        tried = [
            connectivity_probe.try_until_connected(each, seconds)
            for each in connectivity_probe.parse_listeners(options.control)
        ]
        return ProbeReport(results=tried, nameservers=connectivity_probe.read_nameservers(options.resolver))
    if options.storage is not None:
        return ProbeReport(
            write_seconds=connectivity_probe.time_volume_write(options.storage),
            missing_files=connectivity_probe.find_missing_files(options.storage, options.find or (), seconds),
        )
    connectivity_probe.accept_connections(connectivity_probe.parse_listeners(options.listen or ""), seconds)
    return ProbeReport()
