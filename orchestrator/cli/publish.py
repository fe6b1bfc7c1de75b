"""`sparring publish` and `sparring verify`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from orchestrator.application.contests import seasons
from orchestrator.application.publishing import bundles as publishing
from orchestrator.bundles.prior_evidence import PriorEvidence
from orchestrator.bundles.receipts import VerifiedReceipt
from orchestrator.bundles.verifier import VerificationReport
from orchestrator.cli import console, output_paths, season
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.domain.text import shell_word
from orchestrator.errors import UsageError


@console.command
def publish(
    folder: season.ContestDir,
    bundle: Annotated[
        Path, typer.Option("--out", help="The bundle's folder, which the command makes.", file_okay=False)
    ],
    sealed: Annotated[
        bool, typer.Option("--sealed", help="Without labels, answers and secrets (the default).")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="With labels, answers and secrets, which are then public.")
    ] = False,
    pictures: Annotated[bool, typer.Option("--pictures", help="With --full: also the pictures.")] = False,
    unfinished: Annotated[
        bool,
        typer.Option(
            "--unfinished", help="With --full: publish although rounds with the same labels are still to be played."
        ),
    ] = False,
    by: season.By = None,
    as_json: Json = False,
) -> None:
    """Write a signed bundle of everything that was played, from which anybody can recompute the leaderboards."""
    if sealed and full:
        raise UsageError("--sealed and --full: choose one")
    if not full:
        console.refuse_ignored({"--unfinished": unfinished}, "it is for --full; add that, or leave it out")
    output_paths.require_folder_path(bundle, "--out")
    with seasons.administer(folder, by) as admin:
        published = publishing.publish_bundle(
            admin, bundle, "full" if full else "sealed", pictures=pictures, unfinished=unfinished
        )
    if as_json:
        console.print_json({"bundle": str(published.path), **asdict(published.verification)})
        return
    out.print(
        f"bundle   {safe_text(str(published.path))}: {published.verification.kind}, {published.verification.digest}",
        soft_wrap=True,
    )
    _print_counts(published.verification)
    out.print(
        f"check    sparring verify {escape(shell_word(published.path))} --key {published.verification.key}",
        soft_wrap=True,
    )


@console.command
def verify(
    path: Annotated[Path, typer.Argument(help="A bundle's folder, or a receipt.", metavar="BUNDLE|RECEIPT")],
    key: Annotated[str | None, typer.Option("--key", help="The fingerprint that the organizers published.")] = None,
    sealed: Annotated[
        Path | None, typer.Option("--sealed", help="For a full bundle: a sealed one whose commitments it has to open.")
    ] = None,
    head: Annotated[
        list[str] | None,
        typer.Option("--head", help="A head that you kept from a leaderboard or page; may be repeated."),
    ] = None,
    receipt: Annotated[
        list[Path] | None, typer.Option("--receipt", help="A receipt that you kept; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a bundle offline: signature, chains, commitments, and every number counted again; or check a receipt.

    Names the first thing that is wrong, and exits with 1. Needs nothing but the bundle.
    """
    verified = publishing.verify_bundle_or_receipt(
        path, key, sealed, PriorEvidence(tuple(head or ()), tuple(receipt or ()))
    )
    trust = "key" if key else "integrity only"
    if as_json:
        console.print_json({"ok": True, "trust": trust, **_document(verified)})
        return
    whose = f"signed by {verified.key}, the key you gave" if key else f"signed by {verified.key}"
    if isinstance(verified, VerifiedReceipt):
        body = verified.receipt
        out.print(
            f"[green]genuine[/]  receipt for {safe_text(body.submission)} of {safe_text(body.team)}", soft_wrap=True
        )
        out.print(
            f"received {safe_text(body.received)} for {safe_text(body.task)}: {safe_text(body.digest)}", soft_wrap=True
        )
    else:
        out.print(
            f"[green]holds[/]    {verified.kind} bundle of {safe_text(verified.contest)}, {verified.digest}",
            soft_wrap=True,
        )
        _print_counts(verified)
    out.print(f"key      {whose}", soft_wrap=True)
    if not key:
        console.print_warning("integrity only: without --key nobody knows whose it is")


def _print_counts(report: VerificationReport) -> None:
    hidden = f", {report.withheld} of them withheld" if report.withheld else ""
    out.print(f"chain    {report.entries} entries in {len(report.rounds) + 1} ledgers{hidden}", soft_wrap=True)
    closed = "commitments opened" if report.kind == "full" else "commitments"
    out.print(f"pictures {report.pictures} {closed}, {report.cells} cells", soft_wrap=True)
    out.print(f"numbers  {report.numbers} in {len(report.rounds)} results files follow from them", soft_wrap=True)
    if report.replays:
        out.print(f"replays  {report.replays} followed from the secrets and judged again", soft_wrap=True)
    if report.outcomes:
        out.print(f"outcomes {report.outcomes}, such as who was promoted, follow from the boards", soft_wrap=True)
    if report.commitments_opened:
        out.print(f"opened   {report.commitments_opened} commitments of the sealed bundle", soft_wrap=True)
    for place in report.evidence_found:
        out.print(f"held     {safe_text(place)} is what you hold", soft_wrap=True)


def _document(found: VerificationReport | VerifiedReceipt) -> dict[str, Any]:
    if isinstance(found, VerifiedReceipt):
        return {"receipt": found.receipt.model_dump(), "key": found.key}
    return asdict(found)
