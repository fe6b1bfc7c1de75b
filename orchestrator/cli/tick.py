"""`sparring tick`."""

from orchestrator.application.contests import seasons
from orchestrator.application.contests.unrestricted_contest import open_unrestricted
from orchestrator.cli import console, season
from orchestrator.cli.console import Json, out, safe_text


@console.command
def tick(folder: season.ContestDir, as_json: Json = False) -> None:
    """Do what is due in an unrestricted contest: close weeks, publish defences, settle stakes.

    A worker does the same each second. If you run it twice, or late, it records nothing twice.
    """
    with open_unrestricted(folder) as contest:
        actions = contest.tick(seasons.now())
    if as_json:
        console.print_json({"actions": [{"id": each.id, "events": len(each.events)} for each in actions]})
        return
    for action in actions:
        out.print(f"done     {safe_text(action.id)}", soft_wrap=True)
    if not actions:
        out.print("nothing is due")
