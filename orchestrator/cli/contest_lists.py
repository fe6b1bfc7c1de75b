"""`sparring contest show`, `team list` and `submission list`: show a contest's present state, and change nothing."""

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from orchestrator.application.contests import seasons
from orchestrator.application.contests.submission_window import submission_window
from orchestrator.cli import console, season
from orchestrator.cli.console import Json, out, parse_side, safe_text
from orchestrator.cli.tables import Column, fitting_tables
from orchestrator.domain.contest_format import SeasonRound
from orchestrator.domain.season import Entry, Season
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import counted_noun, iso_time
from orchestrator.errors import UsageError
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder


@console.command
def show(folder: season.ContestDir, as_json: Json = False) -> None:
    """Show a contest as it is now: its dates, tasks and rounds, and how many take part."""
    contest, found = seasons.read_contest(folder)
    document = _contest_document(contest, found, ContestFolder(folder))
    if as_json:
        console.print_json(document)
        return
    out.print(f"{safe_text(document['title'])} ({document['contest']}, format {document['format']})", soft_wrap=True)
    closing = document["closing"]
    closes = (
        f"closed {document['closes']} by the organizers"
        if closing
        else contest.format.closes_itself or f"closes {document['closes'] or 'when the organizers say'}"
    )
    why = f": {safe_text(closing['reason'], 300)}" if closing and closing["reason"] else ""
    out.print(f"opens     {document['opens'] or 'at once'}, {closes}{why}", soft_wrap=True)
    for sentence in document["prizes"]:
        out.print(f"prize     {safe_text(sentence, 500)}", soft_wrap=True)
    out.print(f"teams     {document['teams']}")
    for task in document["tasks"]:
        counts = (counted_noun(count, side) for side, count in task["submissions"].items())
        sides = ", ".join(counts) or "no submission"
        out.print(f"task      {safe_text(task['name'])}: {sides}", soft_wrap=True)
        for name, state in task["rounds"].items():
            out.print(f"          {safe_text(name)} round: {safe_text(state, 1000)}", soft_wrap=True)
    if document["waiting"]:
        out.print(f"waiting   {counted_noun(document['waiting'], 'arrival')} to be admitted (`sparring status`)")


@console.command
def teams(folder: season.ContestDir, as_json: Json = False) -> None:
    """Show the teams with the names of their people, and how many submissions of theirs take part."""
    _, found = seasons.read_contest(folder)
    rows: list[dict[str, Any]] = [
        {
            "team": name,
            "people": [person.name for person in people],
            "organizers": any(person.organizer for person in people),
            "submissions": sum(entry.team == name and entry.is_active for entry in found.entries.values()),
        }
        for name, people in found.teams.items()
    ]
    if as_json:
        console.print_json(rows)
        return
    marks = (" (organizers, A5)" if row["organizers"] else "" for row in rows)
    columns = [
        Column("team", [f"{row['team']}{mark}" for row, mark in zip(rows, marks, strict=True)], is_sentence=True),
        Column("people", [", ".join(map(str, row["people"])) for row in rows], is_sentence=True),
        Column("submissions", [str(row["submissions"]) for row in rows], is_number=True),
    ]
    _print_table(columns, "no team yet: `sparring team add`")


@console.command
def submissions(
    folder: season.ContestDir,
    task: season.OnlyTask = None,
    team: Annotated[str | None, typer.Option("--team", help="Only those of this team.")] = None,
    side: Annotated[
        Side | None,
        typer.Option("--side", parser=parse_side, metavar="attack|defence", help="Only those of this side."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the received submissions in their order, and what became of each."""
    contest, found = seasons.read_contest(folder)
    seasons.task_names(contest, task)  # raises UsageError for an unknown task
    if team is not None and team not in found.teams:
        known = f"there is {', '.join(found.teams)}" if found.teams else "add it with `sparring team add`"
        raise UsageError(f"there is no team {team!r}; {known}")
    wanted = [
        entry
        for entry in sorted(found.entries.values(), key=lambda each: each.receipt_number)
        if task in (None, entry.task) and team in (None, entry.team) and side in (None, entry.side)
    ]
    rows = [_entry_document(entry) for entry in wanted]
    if as_json:
        console.print_json(rows)
        return
    columns = [
        Column(
            "submission" if key == "id" else key, [str(row[key]) for row in rows], is_sentence=key in {"team", "state"}
        )
        for key in ("id", "team", "task", "side", "received", "state")
    ]
    _print_table(columns, "no such submission was received")


def _contest_document(contest: Contest, found: Season, folder: ContestFolder) -> dict[str, Any]:
    window = submission_window(contest.file, found.closing, seasons.now())
    return {
        "contest": contest.file.contest,
        "title": contest.file.title,
        "format": contest.file.format,
        "submissions": window.state,
        "opens": window.opens and iso_time(window.opens),
        "closes": window.closes and iso_time(window.closes),
        "closing": window.closing and asdict(window.closing),
        "prizes": contest.file.prizes,
        "teams": len(found.teams),
        "tasks": [_task_document(contest, found, folder, each.name) for each in contest.file.all_tasks],
        "waiting": len(found.pending_arrivals),
    }


def _task_document(contest: Contest, found: Season, folder: ContestFolder, task: str) -> dict[str, Any]:
    active = [entry for entry in found.entries_of_task(task) if entry.is_active]
    counts = {side.value: sum(entry.side is side for entry in active) for side in Side}
    rounds = {one.name: _round_state(one, found, folder, task) for one in contest.format.rounds(found, task)}
    return {"name": task, "submissions": {side: count for side, count in counts.items() if count}, "rounds": rounds}


def _round_state(one: SeasonRound, found: Season, folder: ContestFolder, task: str) -> str:
    if (one.name, task) in found.played_rounds:
        return "played"
    if folder.round(one.name, task).exists:
        return "begun, not finished (`sparring round status`)"
    return f"cannot be played yet: {one.blocked}" if one.blocked else "not played"


def _entry_document(entry: Entry) -> dict[str, Any]:
    state = "takes part"
    if entry.disqualified:
        state = f"disqualified: {entry.disqualified}"
    elif entry.withdrawn:
        state = f"withdrawn: {entry.withdrawn}"
    return {
        "id": entry.id,
        "name": entry.name,
        "team": entry.team,
        "task": entry.task,
        "side": entry.side.value,
        "attempt": entry.attempt,
        "received": entry.arrived_at or entry.received_at,
        "licence": entry.licence,
        "source": entry.source,
        "digest": entry.digest,
        "state": state,
    }


def _print_table(columns: list[Column], nothing: str) -> None:
    """Prints columns of texts after making them safe for the terminal, or `nothing` if there is no row."""
    if not columns[0].cells:
        out.print(nothing)
        return
    for table in fitting_tables([replace(each, cells=[safe_text(cell) for cell in each.cells]) for each in columns]):
        out.print(table)
