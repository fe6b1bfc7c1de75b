"""`sparring role`: organizers, raters and the review board."""

from typing import Annotated

import typer

from orchestrator.application.contests import roles, seasons
from orchestrator.application.contests.administration import validated
from orchestrator.cli import console, season
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="Who is an organizer, a rater or a member of the review board.")
ContestRole = Annotated[Role, typer.Argument(help="The role.", metavar="organizer|rater|board")]


@app.command("grant", epilog="Example: sparring role grant cup rater person-4f2a:'Rae L.'")
@console.command
def grant(
    folder: season.ContestDir,
    role: ContestRole,
    person: Annotated[str, typer.Argument(help="Who gets it, as ID:NAME.", metavar="ID:NAME")],
    by: season.By = None,
    as_json: Json = False,
) -> None:
    """Give somebody a role. Bundles show that somebody got it, and neither the ID nor the name."""
    id_, mark, name = person.partition(":")
    if not mark:
        raise UsageError(f"{person!r}: write it as ID:NAME")
    record = validated(PersonRecord, id=id_, name=name)
    with seasons.administer(folder, by) as admin:
        roles.grant_role(admin, record, role)
    console.print_fields({"granted": role.value, "person": id_, "name": name}, as_json=as_json)


@app.command("revoke", epilog="Example: sparring role revoke cup rater person-4f2a --reason 'left the panel'")
@console.command
def revoke(
    folder: season.ContestDir,
    role: ContestRole,
    person: Annotated[str, typer.Argument(help="Whose it is, by the ID.", metavar="ID")],
    reason: season.Reason,
    by: season.By = None,
    as_json: Json = False,
) -> None:
    """Take a role from somebody, with a reason on record."""
    with seasons.administer(folder, by) as admin:
        roles.revoke_role(admin, person, role, reason)
    console.print_fields({"revoked": role.value, "person": person, "reason": reason}, as_json=as_json)


@app.command("list", epilog="Example: sparring role list cup")
@console.command
def list_(folder: season.ContestDir, as_json: Json = False) -> None:
    """Show who has which role now."""
    with seasons.administer(folder) as admin:
        rows = [(role.value, each) for role, people in admin.season.roles.items() for each in people.values()]
    if as_json:
        console.print_json([{"role": role, "person": each.id, "name": each.name} for role, each in rows])
        return
    for role, each in rows:
        out.print(f"{role:10} {safe_text(each.id)} {safe_text(each.name)}", soft_wrap=True)
