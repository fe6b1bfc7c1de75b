"""`sparring contest`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.application.contests import announcements, public_pictures, seasons
from orchestrator.cli import console, contest_closing, contest_lists, contest_power, output_paths, season
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.cli.effective_values import effective_values
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import counted_noun
from orchestrator.errors import UsageError
from orchestrator.intake import admission
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import contest_file
from orchestrator.picture_files import task_zip

app = typer.Typer(no_args_is_help=True, help="Make a contest, and look at contest files.")


app.command("init", epilog="Example: sparring contest init cup --template tournament")(season.init)
app.command("open", epilog="Example: sparring contest open cup")(season.open_)
app.command("close", epilog="Example: sparring contest close cup --reason 'as announced'")(contest_closing.close)
app.command("reopen", epilog="Example: sparring contest reopen cup --reason 'the site was away for a day'")(
    contest_closing.reopen
)
app.command("show", epilog="Example: sparring contest show cup")(contest_lists.show)
app.command("power", epilog="Example: sparring contest power cup --attacks 10 --defences 10 --gap 1")(
    contest_power.power
)


@app.command("record", epilog="Example: sparring contest record league weekly.ended --set reason='the term is over'")
@console.command
def record(
    folder: season.ContestDir,
    kind: Annotated[str, typer.Argument(help="The event's kind, such as FORMAT.NAME.", metavar="KIND")],
    fields: Annotated[
        list[str] | None, typer.Option("--set", help="A field of the event as NAME=TEXT; may be repeated.")
    ] = None,
    by: season.By = None,
    as_json: Json = False,
) -> None:
    """Record an event of the contest's format in its ledger: a decision of the organizers under its rules."""
    pairs = [text.partition("=") for text in fields or ()]
    if wrong := [name for name, mark, _ in pairs if not (name and mark)]:
        raise UsageError(f"--set {wrong[0]!r}: write it as NAME=TEXT")
    with seasons.administer(folder, by) as admin:
        event = admin.record_format_event(kind, {name: value for name, _, value in pairs})
    if as_json:
        console.print_json(event.model_dump(mode="json"))
        return
    for part, description in {"recorded": kind, **event.summary()}.items():
        out.print(f"{safe_text(part):12} {safe_text(description, 2000)}", soft_wrap=True)


@app.command("announce", epilog="Example: sparring contest announce cup 'Round one' --text 'It begins on Monday.'")
@console.command
def announce(
    folder: season.ContestDir,
    title: Annotated[str, typer.Argument(help="A line.", metavar="TITLE")],
    text: Annotated[str, typer.Option("--text", help="The text. Bundles publish it.")],
    by: season.By = None,
    as_json: Json = False,
) -> None:
    """Publish an announcement, which the ledger records with its time."""
    with seasons.administer(folder, by) as admin:
        said = announcements.announce(admin, title, text)
    if as_json:
        console.print_json(asdict(said))
        return
    out.print(f"announced {safe_text(said.title)}, {said.time}", soft_wrap=True)


@app.command("pictures", epilog="Example: sparring contest pictures cup --out pictures.zip")
@console.command
def pictures(
    folder: season.ContestDir,
    target: Annotated[Path, typer.Option("--out", help="The zip file to write.")],
    task: season.Task = None,
    as_json: Json = False,
) -> None:
    """Write the archive of a task's pictures that participants of an attack-set contest download and change (C1).

    JPEG and PNG files of a dataset of the kind `zip` are in it byte by byte; of others, pictures are PNG.
    """
    path = output_paths.require_file_path(target, "--out")
    contest = Contest(contest_file(folder))
    if not contest.format.picture_formats():
        raise UsageError(
            f"{contest.path} is a contest of the format {contest.file.format!r}, in which nobody may see the task's "
            "pictures; `sparring contest sample` writes those that are public"
        )
    samples = contest.load_samples(task)
    task_zip.write_picture_archive(path, samples, contest.load_original_files(task))
    if as_json:
        console.print_json({"file": str(path), "pictures": len(samples)})
        return
    out.print(f"pictures {len(samples)} and label.txt, in {safe_text(str(path))}", soft_wrap=True)


@app.command("sample", epilog="Example: sparring contest sample contest.yaml --out train.npz")
@console.command
def sample(
    file: Annotated[Path, typer.Argument(help="The contest file, or its folder.", metavar="FILE")],
    target: Annotated[Path, typer.Option("--out", help="The archive to write.")],
    task: season.Task = None,
    as_json: Json = False,
) -> None:
    """Write a task's public pictures and their labels as an archive of arrays, which `train.py --data` reads."""
    path = output_paths.require_file_path(target, "--out")
    contest = Contest(contest_file(file))
    samples = public_pictures.write_public_pictures(contest, task, path)
    if as_json:
        console.print_json({"file": str(path), "pictures": len(samples), "classes": list(samples.classes)})
        return
    classes = ", ".join(samples.classes)
    out.print(f"sample   {len(samples)} pictures of {safe_text(classes)}, in {safe_text(str(path))}", soft_wrap=True)


@app.command("check", epilog="Example: sparring contest check examples/demo/contest.yaml")
@console.command
def check(
    file: Annotated[Path, typer.Argument(help="The contest file, or its folder.", metavar="FILE")],
    as_json: Json = False,
) -> None:
    """Read a contest file, its pictures and its submissions, and show every effective value.

    Nothing is started. All problems are listed at once, each with its line and a remedy.
    """
    contest = Contest(contest_file(file))
    tasks, roster = admission.check_contest(contest, seasons.rounds_to_check(contest))
    cells = contest.format.schedule(roster)
    sides = {side.value: [s.id for s in roster.by_side(side)] for side in Side}
    warnings = contest.format.rule_warnings() + [
        warning for task in tasks for warning in contest.format.task_warnings(task)
    ]
    if not contest.file.submissions:  # a file with submissions is for a round outside a season
        warnings += [
            f"a season with this file could not play its round {name}: {problem.what}; {problem.remedy}"
            for name, problems in seasons.season_problems(contest, roster).items()
            for problem in problems
        ]
    if as_json:
        effective = contest.file.model_dump(mode="json") | {"rules": contest.format.rules.model_dump(mode="json")}
        task_rows = [{"name": task.name, "pictures": task.count, "digest": task.digest} for task in tasks]
        summary = {"tasks": task_rows, "cells": len(cells), **sides}
        console.print_json({"ok": True, "summary": summary, "warnings": warnings, "contest": effective})
        return
    verdict = (
        f"[yellow]fine, with {counted_noun(len(warnings), 'warning')} at the end[/]" if warnings else "[green]fine[/]"
    )
    out.print(f"{verdict}  {safe_text(contest.file.title)} ({contest.file.contest}, format {contest.file.format})")
    for task in tasks:
        budget = f"{task.budget.norm} {task.budget.epsilon}/255" if task.budget else "no budget"
        out.print(f"task      {task.name}: {task.count} pictures {task.shape}, {len(task.classes)} classes, {budget}")
    for side, ids in sides.items():
        out.print(f"{side + 's':9} {len(ids)}{': ' if ids else ''}{', '.join(ids)}", soft_wrap=True)
    out.print(f"cells     {len(cells)}, isolation {contest.file.isolation}")
    for key, value, is_default in effective_values(contest.file, contest.format.rules):
        mark = "  [dim](default)[/]" if is_default else ""
        out.print(f"{key} = {safe_text(value)}{mark}", soft_wrap=True)
    for warning in warnings:
        console.print_warning(warning)
