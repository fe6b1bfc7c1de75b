"""`sparring team`: the teams of a contest and their people."""

from typing import Annotated

import typer

from orchestrator.application.contests import seasons
from orchestrator.application.contests.administration import validated
from orchestrator.cli import console, contest_lists
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.cli.season import By, ContestDir
from orchestrator.domain.contest_events import PersonRecord
from orchestrator.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="The teams of a contest and their people.")


@app.command(
    "add",
    epilog="Example: sparring team add cup 'Corner Shop' --member ada@example.org:'Ada L.' --organizer bob@tum.de:Bob",
)
@console.command
def add(
    folder: ContestDir,
    name: Annotated[str, typer.Argument(help="The team's name.", metavar="TEAM")],
    member: Annotated[list[str] | None, typer.Option("--member", help="A person, as ID:NAME; may be repeated.")] = None,
    organizer: Annotated[
        list[str] | None, typer.Option("--organizer", help="A member of the organizing institution (A5), as ID:NAME.")
    ] = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Add a team with its people, or replace its people. An ID, such as an e-mail address, tells people apart (A1)."""
    people = [_person(text, organizer=False) for text in member or []]
    people += [_person(text, organizer=True) for text in organizer or []]
    with seasons.administer(folder, by) as admin:
        admin.add_team(name, people)
    if as_json:
        console.print_json({"team": name, "people": [person.model_dump() for person in people]})
        return
    out.print(f"team     {safe_text(name)}: {', '.join(safe_text(person.name) for person in people)}", soft_wrap=True)


def _person(text: str, *, organizer: bool) -> PersonRecord:
    identity, _, name = (part.strip() for part in text.partition(":"))
    if not (identity and name):
        # Pages show the name, and must never show the ID, which is often an e-mail address.
        raise UsageError(
            f"{text[:80]!r}: write a person as ID:NAME, such as ada@example.org:'Ada L.'; pages show the name"
        )
    return validated(PersonRecord, id=identity, name=name, organizer=organizer)


app.command("list", epilog="Example: sparring team list cup")(contest_lists.teams)
