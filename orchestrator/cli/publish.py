"""`sparring publish` and `sparring verify`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli import console, places, season
from orchestrator.cli.console import Json, out, safe
from orchestrator.errors import UsageError
from orchestrator.publication.held import Held
from orchestrator.publication.receipts import Genuine
from orchestrator.publication.verification import Verified
from orchestrator.wiring import publish as publishing
from orchestrator.wiring import seasons

_ONLY = "integrity only: without --key nobody knows whose it is"


@console.command
def publish(
    folder: season.ContestDir,
    bundle: Annotated[Path, typer.Option("--out", help="The bundle's folder; it is made.", file_okay=False)],
    sealed: Annotated[bool, typer.Option("--sealed", help="No label, no answer, no secret (the default).")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="With labels, answers and secrets: they are public then.")
    ] = False,
    pictures: Annotated[bool, typer.Option("--pictures", help="With --full: also the pictures.")] = False,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="With --full: although rounds with the same labels are to be played.")
    ] = False,
    by: season.By = None,
    as_json: Json = False,
) -> None:
    """Write a signed bundle of everything that was played, from which anybody can recompute the boards."""
    if sealed and full:
        raise UsageError("--sealed and --full: choose one")
    places.for_folder(bundle, "--out")
    with seasons.at_desk(folder, by) as desk:
        made = publishing.publish(desk, bundle, "full" if full else "sealed", pictures=pictures, unfinished=unfinished)
    if as_json:
        console.emit({"bundle": str(made.path), **asdict(made.verified)})
        return
    out.print(f"bundle   {safe(str(made.path))}: {made.verified.kind}, {made.verified.digest}", soft_wrap=True)
    _counts(made.verified)
    out.print(f"check    sparring verify {safe(str(made.path))} --key {made.verified.key}", soft_wrap=True)


@console.command
def verify(
    path: Annotated[Path, typer.Argument(help="A bundle's folder, or a receipt.", metavar="BUNDLE|RECEIPT")],
    key: Annotated[str | None, typer.Option("--key", help="The fingerprint that the organizers published.")] = None,
    sealed: Annotated[
        Path | None, typer.Option("--sealed", help="For a full bundle: the sealed one that it has to open.")
    ] = None,
    head: Annotated[
        list[str] | None, typer.Option("--head", help="A head that you kept from a board or page; may be repeated.")
    ] = None,
    receipt: Annotated[
        list[Path] | None, typer.Option("--receipt", help="A receipt that you hold; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a bundle offline: signature, chains, commitments, and every number counted again; or check a receipt.

    Names the first thing that does not hold, and exits with 1. Needs nothing but the bundle.
    """
    found = publishing.verify(path, key, sealed, Held(tuple(head or ()), tuple(receipt or ())))
    trust = "key" if key else "integrity only"
    if as_json:
        console.emit({"ok": True, "trust": trust, **_document(found)})
        return
    whose = f"signed by {found.key}, the key you gave" if key else f"signed by {found.key}"
    if isinstance(found, Genuine):
        body = found.body
        out.print(f"[green]genuine[/]  receipt for {safe(body.submission)} of {safe(body.team)}", soft_wrap=True)
        out.print(f"received {safe(body.received)} for {safe(body.task)}: {safe(body.digest)}", soft_wrap=True)
    else:
        out.print(f"[green]holds[/]    {found.kind} bundle of {safe(found.contest)}, {found.digest}", soft_wrap=True)
        _counts(found)
    out.print(f"key      {whose}", soft_wrap=True)
    if not key:
        out.print(f"[yellow]warning:[/] {_ONLY}", soft_wrap=True)


def _counts(found: Verified) -> None:
    hidden = f", {found.withheld} of them withheld" if found.withheld else ""
    out.print(f"chain    {found.entries} entries in {len(found.rounds) + 1} ledgers{hidden}", soft_wrap=True)
    closed = "commitments opened" if found.kind == "full" else "commitments"
    out.print(f"pictures {found.pictures} {closed}, {found.cells} cells", soft_wrap=True)
    out.print(f"numbers  {found.numbers} in {len(found.rounds)} results files follow from them", soft_wrap=True)
    if found.replays:
        out.print(f"replays  {found.replays} followed from the secrets and judged again", soft_wrap=True)
    if found.promotions:
        out.print(f"promoted {found.promotions} times, as the boards say", soft_wrap=True)
    if found.opened:
        out.print(f"opened   {found.opened} commitments of the sealed bundle", soft_wrap=True)
    if found.backwards:
        out.print(f"clock    {found.backwards} entries bear a time before that of an earlier one", soft_wrap=True)
    for place in found.held:
        out.print(f"held     {safe(place)} is what you hold", soft_wrap=True)


def _document(found: Verified | Genuine) -> dict[str, Any]:
    if isinstance(found, Genuine):
        return {"receipt": found.body.model_dump(), "key": found.key}
    return asdict(found)
