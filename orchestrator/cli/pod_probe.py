"""`sparring pod probe`: what a probe of `sparring cluster check` does inside its pod. Nobody types it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import console
from orchestrator.cli.console import ExitCode, out
from orchestrator.cluster import reaching
from orchestrator.cluster.reaching import Reach, Said
from orchestrator.errors import SparringError, UsageError


@dataclass(frozen=True, slots=True)
class Deed:
    """What the probe is to do: one of these."""

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
    deed: Deed = Deed(),
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How long to try each, or to listen.")] = 3.0,
    tell: Annotated[Path, typer.Option("--tell", help="Where what came of it is put down.", dir_okay=False)] = Path(
        "/dev/termination-log"
    ),
    as_json: console.Json = False,
) -> None:
    """Try to reach what no player may reach, listen, or write to the volume, and tell in the termination message."""
    try:
        said = _done(deed, seconds)
    except SparringError as error:
        reaching.say(Said(error=str(error)[:1000]), tell)
        raise
    reaching.say(said, tell)
    if as_json:
        console.emit(said.model_dump(mode="json"))
    else:
        out.print(said.model_dump_json(), markup=False)
    if deed.control and any(each.reach is not Reach.CONNECTED for each in said.tried):
        raise typer.Exit(ExitCode.FAILED)


def _done(deed: Deed, seconds: float) -> Said:
    if sum(each is not None for each in (deed.connect, deed.listen, deed.control, deed.storage)) != 1:
        raise UsageError("give one of --connect, --listen, --control and --storage")
    if deed.connect is not None:
        targets = [*reaching.surroundings(os.environ), *map(reaching.target, deed.connect)]
        return Said(tried=reaching.try_all(targets, seconds), counters=reaching.counters())
    if deed.control is not None:
        tried = [reaching.control(each, seconds) for each in reaching.listeners(deed.control)]
        return Said(tried=tried, nameservers=reaching.nameservers(deed.resolver))
    if deed.storage is not None:
        return Said(
            wrote=reaching.write(deed.storage), missing=reaching.missing(deed.storage, deed.find or (), seconds)
        )
    reaching.listen(reaching.listeners(deed.listen or ""), seconds)
    return Said()
