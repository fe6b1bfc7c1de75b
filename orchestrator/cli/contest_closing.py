"""`sparring contest close` and `contest reopen`: organizers close submissions early, and open them again."""

from dataclasses import asdict
from typing import Annotated

import typer

from orchestrator.application.contests import seasons, submission_closing
from orchestrator.application.contests.closing_preview import CONSEQUENCES, ClosingPreview, closing_preview
from orchestrator.cli import console, season
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.domain.text import counted_noun, iso_time
from orchestrator.errors import UsageError
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.reports import formatting
from orchestrator.web.upload_files import unfinished_files


@console.command
def close(
    folder: season.ContestDir,
    reason: Annotated[str, typer.Option("--reason", help="The reason. Everybody sees it.")] = "",
    by: season.By = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would follow, and record nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Close submissions now: those that arrived before are still admitted and count, later ones are refused."""
    if dry_run:
        contest, found = seasons.read_contest(folder)
        uploads = unfinished_files(folder)
        preview = closing_preview(ContestFolder(folder), contest, found, seasons.now(), uploads)
        _print_preview(preview, as_json=as_json)
        return
    with seasons.administer(folder, by) as admin:
        closing = submission_closing.close_submissions(admin, reason)
        waiting = len(admin.season.pending_arrivals)
    if as_json:
        console.print_json({"closed": closing.time, "reason": closing.reason, "waiting": waiting})
        return
    out.print(f"closed     {closing.time}", soft_wrap=True)
    if waiting:
        out.print(f"waiting    {counted_noun(waiting, 'arrival')} from before the close: still admitted, and counted")
    out.print(f"undo       sparring contest reopen {safe_text(str(folder))} --reason TEXT", soft_wrap=True)


def _print_preview(preview: ClosingPreview, *, as_json: bool) -> None:
    """Prints the effects of closing. Raises UsageError if submissions cannot be closed."""
    if preview.obstacle:
        raise UsageError(preview.obstacle)
    if as_json:
        console.print_json({**asdict(preview), "consequences": CONSEQUENCES})
        return
    for each in preview.rounds:
        sides = ", ".join(counted_noun(count, side) for side, count in each.submissions.items())
        teams, own = counted_noun(each.teams, "team"), counted_noun(each.baselines, "baseline")
        _line("next", f"{each.round} round of {each.task}: {sides} of {teams}, and {own}")
        _line("cells", f"{each.cells}, {each.left} of them to be played")
        for problem in filter(None, (each.blocked, *each.problems)):
            _line("blocked", problem)
        for one in each.ineligible:
            _line("ineligible", f"{one.submission} of {one.team}: {one.reason}")
    for arrival in preview.waiting:
        _line("waits", f"{arrival.name} of {arrival.team} on {arrival.task}, since {arrival.arrived}: counts")
    if preview.uploads:
        here = formatting.byte_size(sum(upload.received for upload in preview.uploads))
        _line("too late", f"{counted_noun(len(preview.uploads), 'upload')} under way, {here} here so far")
    if preview.teams_without:
        _line("nothing", f"of {', '.join(preview.teams_without)}")
    for sentence in CONSEQUENCES:
        console.print_sentences(out, sentence)
    _line("dry run", "nothing is recorded")


def _line(label: str, text: str) -> None:
    out.print(f"{label:10} {safe_text(text, 1000)}", soft_wrap=True)


@console.command
def reopen(folder: season.ContestDir, reason: season.Reason, by: season.By = None, as_json: Json = False) -> None:
    """Open submissions again that were closed with `sparring contest close`: the dates of contest.yaml decide."""
    with seasons.administer(folder, by) as admin:
        window = submission_closing.reopen_submissions(admin, reason)
    closes = iso_time(window.closes) if window.closes else None
    if as_json:
        console.print_json({"reopened": True, "reason": reason, "state": window.state, "closes": closes})
        return
    if window.state == "closed":
        out.print(f"[yellow]closed[/]     {closes}, by `closes` in contest.yaml: change it, too", soft_wrap=True)
    else:
        out.print(f"open       until {closes or 'the organizers close them'}", soft_wrap=True)
