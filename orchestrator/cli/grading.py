"""`sparring grade`: grading of pictures by people, without a server."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.application.contests import seasons
from orchestrator.application.grading import human_grading
from orchestrator.cli import console, season
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.text import counted_noun
from orchestrator.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="People who grade pictures: plan, pages, answers.")
Raters = Annotated[
    list[str],
    typer.Option("--rater", help="A rater's id, such as r01; not a name, since it is published. May be repeated."),
]


@app.command("plan", epilog="Example: sparring grade plan league --rater r01 --rater r02 --rater r03")
@console.command
def plan(
    folder: season.ContestDir, rater: Raters, task: season.Task = None, by: season.By = None, as_json: Json = False
) -> None:
    """Draw who grades which pictures, from the round's secret, and record it before the first answer (C7)."""
    with seasons.administer(folder, by) as admin:
        event = human_grading.plan_grading(admin, rater, task)
    _print_plan(event, as_json=as_json)


@app.command("more", epilog="Example: sparring grade more league --appeal reds=3,17 --rater r16 --rater r17")
@console.command
def more(
    folder: season.ContestDir,
    rater: Raters,
    appeal: Annotated[
        list[str] | None, typer.Option("--appeal", help="Pictures about which a team appeals, as SUBMISSION=3,17.")
    ] = None,
    task: season.Task = None,
    by: season.By = None,
    as_json: Json = False,
) -> None:
    """Plan further questions: about missing answers that no rater was asked for, and about appeals."""
    appeals = dict(map(_appeal, appeal or ()))
    with seasons.administer(folder, by) as admin:
        event = human_grading.plan_more(admin, appeals, rater, task)
    _print_plan(event, as_json=as_json)


@app.command("export", epilog="Example: sparring grade export league --out pages")
@console.command
def export(
    folder: season.ContestDir,
    target: Annotated[Path, typer.Option("--out", help="A new folder for the pages.")],
    task: season.Task = None,
    as_json: Json = False,
) -> None:
    """Write a page for each rater of the latest plan: one file, which works without a network."""
    with seasons.administer(folder) as admin:
        pages = human_grading.export_pages(admin, target, task)
    if as_json:
        console.print_json({"pages": [str(page) for page in pages]})
        return
    for page in pages:
        out.print(f"page     {safe_text(str(page))}", soft_wrap=True)


@app.command("import", epilog="Example: sparring grade import league answers-r01.json answers-r02.json")
@console.command
def import_(
    folder: season.ContestDir,
    files: Annotated[
        list[Path], typer.Argument(help="The files that the pages saved, JSON or CSV.", metavar="FILE...")
    ],
    task: season.Task = None,
    by: season.By = None,
    as_json: Json = False,
) -> None:
    """Record the raters' answers from all files or none. A later file of a rater adds answers and replaces none."""
    with seasons.administer(folder, by) as admin:
        received = human_grading.import_answers(admin, files, task)
    if as_json:
        console.print_json(
            [{**each.event.summary(), "answered": each.answered, "removed": each.removed} for each in received]
        )
        return
    for each in received:
        said = each.event.summary()
        out.print(f"received {safe_text(said['answers'])} answers of {safe_text(said['rater'])}", soft_wrap=True)
        if each.answered:
            count = counted_noun(each.answered, "item")
            out.print(f"         {count} answered before: the earlier answers count", soft_wrap=True)
        if each.removed:
            out.print(f"         no answer of this rater counts: {safe_text(each.removed)}", soft_wrap=True)


@app.command("status", epilog="Example: sparring grade status league")
@console.command
def status(folder: season.ContestDir, task: season.Task = None, as_json: Json = False) -> None:
    """Show the progress of each rater, whose answers count, and which answers are missing."""
    with seasons.administer(folder) as admin:
        progress = human_grading.grading_progress(admin.contest, admin.season, task)
    if as_json:
        console.print_json(
            {
                "raters": [
                    {
                        name: getattr(rater, name)
                        for name in ("rater", "answered", "asked", "status", "reason", "report")
                    }
                    for rater in progress.raters
                ],
                "outstanding": progress.outstanding,
                "unassigned": progress.unassigned,
            }
        )
        return
    for rater in progress.raters:
        why = f": {rater.reason}" if rater.reason else ""
        done = f"{rater.answered} of {rater.asked}"
        out.print(f"{safe_text(rater.rater):12} {done:>14}  {safe_text(rater.status + why)}", soft_wrap=True)
        if rater.report:
            out.print(f"{'':29}{safe_text(rater.report)}", soft_wrap=True)
    out.print(f"missing  {progress.outstanding} answers of raters who were asked")
    if progress.unassigned:
        out.print(f"         {progress.unassigned} answers that nobody was asked for: `sparring grade more`")


def _appeal(text: str) -> tuple[str, list[int]]:
    submission, mark, numbers = text.partition("=")
    parts = numbers.split(",")
    if not (submission and mark) or not all(part.strip().isdecimal() for part in parts):
        raise UsageError(f"--appeal {text[:80]!r}: write it as SUBMISSION=3,17, with numbers of pictures from 0")
    return submission, [int(part) for part in parts]


def _print_plan(event: FormatEvent, *, as_json: bool) -> None:
    said = event.summary()
    if as_json:
        console.print_json(said)
        return
    for part, text in said.items():
        out.print(f"{safe_text(part):12} {safe_text(text)}", soft_wrap=True)
    out.print("next         sparring grade export: a page for each rater")
