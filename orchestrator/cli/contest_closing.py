"""`sparring contest close` and `contest reopen`: whether submissions are received, by an act of the organizers."""

from typing import Annotated

import typer

from orchestrator.application.contests import seasons, submission_closing
from orchestrator.cli import console, season
from orchestrator.cli.console import Json, out, safe_text


@console.command
def close(
    folder: season.ContestDir,
    reason: Annotated[str, typer.Option("--reason", help="Why, for the ledger. It may be published.")] = "",
    by: season.By = None,
    as_json: Json = False,
) -> None:
    """Close submissions now: what arrived before is still admitted and counts, whatever comes later is refused."""
    with seasons.administer(folder, by) as admin:
        closing = submission_closing.close_submissions(admin, reason)
        waiting = len(admin.season.pending_arrivals)
    if as_json:
        console.print_json({"closed": closing.time, "reason": closing.reason, "waiting": waiting})
        return
    out.print(f"closed    {closing.time}", soft_wrap=True)
    if waiting:
        out.print(f"waiting   {waiting} hand-ins that came before are still admitted, and count")
    out.print(f"undo      sparring contest reopen {safe_text(str(folder))} --reason TEXT", soft_wrap=True)


@console.command
def reopen(folder: season.ContestDir, reason: season.Reason, by: season.By = None, as_json: Json = False) -> None:
    """Open submissions again that were closed with `sparring contest close`: the dates of contest.yaml decide."""
    with seasons.administer(folder, by) as admin:
        window = submission_closing.reopen_submissions(admin, reason)
    closes = window.closes.isoformat() if window.closes else None
    if as_json:
        console.print_json({"reopened": True, "reason": reason, "state": window.state, "closes": closes})
        return
    if window.state == "closed":
        out.print(f"[yellow]closed[/]    {closes}, by `closes` in contest.yaml: change it, too", soft_wrap=True)
    else:
        out.print(f"open      until {closes or 'the organizers close them'}", soft_wrap=True)
