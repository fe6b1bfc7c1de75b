"""`sparring contest`."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.application.contests import seasons
from orchestrator.cli import console, season
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.domain.submissions import Side
from orchestrator.intake import admission
from orchestrator.intake.contest_file import Contest

app = typer.Typer(no_args_is_help=True, help="Make a contest, and look at contest files.")


app.command("init", epilog="Example: sparring contest init cup --template tournament")(season.init)
app.command("open", epilog="Example: sparring contest open cup")(season.open_)


@app.command("check", epilog="Example: sparring contest check examples/demo/contest.yaml")
@console.command
def check(
    file: Annotated[Path, typer.Argument(help="The contest file.", metavar="FILE")], as_json: Json = False
) -> None:
    """Read a contest file, its pictures and its submissions, and show every effective value.

    Nothing is started. All problems are listed at once, each with its line and a remedy.
    """
    contest = Contest(file)
    tasks, roster = admission.check_contest(contest, seasons.season_phases(contest))
    cells = contest.format.cells(roster)
    sides = {side.value: [s.id for s in roster.side(side)] for side in Side}
    effective = contest.file.model_dump(mode="json") | {"rules": contest.format.rules.model_dump(mode="json")}
    if as_json:
        played = [{"name": task.name, "pictures": task.count, "digest": task.digest} for task in tasks]
        summary = {"tasks": played, "cells": len(cells), **sides}
        console.print_json({"ok": True, "summary": summary, "contest": effective})
        return
    out.print(f"[green]fine[/]  {safe_text(contest.file.title)} ({contest.file.contest}, format {contest.file.format})")
    for task in tasks:
        budget = f"{task.budget.norm} {task.budget.epsilon}/255"
        out.print(f"task      {task.name}: {task.count} pictures {task.shape}, {len(task.classes)} classes, {budget}")
    for side, ids in sides.items():
        out.print(f"{side + 's':9} {len(ids)}: {', '.join(ids)}", soft_wrap=True)
    out.print(f"cells     {len(cells)}, isolation {contest.file.isolation}")
    for section in ("limits", "replay", "rules"):
        for key, value in effective[section].items():
            given = getattr(contest.file, section) if section != "rules" else contest.file.rules
            mark = "" if key in _keys_given(given) else "  [dim](default)[/]"
            out.print(f"{section}.{key} = {safe_text(str(value))}{mark}", soft_wrap=True)


def _keys_given(section: object) -> set[str]:
    return set(section) if isinstance(section, dict) else set(getattr(section, "model_fields_set", ()))
