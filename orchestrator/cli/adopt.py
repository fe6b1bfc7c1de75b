"""`sparring submission adopt`: a folder of the NIPS 2017 layout becomes a submission."""

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from orchestrator.cli import console
from orchestrator.cli.console import Json, err, out, safe_text
from orchestrator.intake import adopt_nips2017, scaffold
from orchestrator.ledger.season_view import is_osi_approved


@console.command
def adopt(
    folder: Annotated[Path, typer.Argument(help="The folder with a metadata.json.", show_default=False)],
    name: Annotated[str, typer.Option("--name", help="Its name; by default the folder's.")] = "",
    labels_from: Annotated[
        int, typer.Option("--labels-from", min=0, max=1, help="The number that a defence's first class has: 0 or 1.")
    ] = 0,
    licence: Annotated[str, typer.Option("--licence", help="The SPDX id of its licence (A6).")] = "",
    as_json: Json = False,
) -> None:
    """Make a submission of a folder in the NIPS 2017 layout: write its manifest, and change nothing else.

    A Dockerfile and a .dockerignore are written where there are none.
    """
    wanted = adopt_nips2017.AdoptionRequest(name, cast("Literal[0, 1]", labels_from), licence)
    made = adopt_nips2017.adopt_folder(folder, wanted)
    place = safe_text(str(folder))
    commands = [
        f"sparring submission check {place}",
        f"sparring submission try {place} --against {scaffold.FIRST_OPPONENT[made.side]}",
        f"sparring submission pack {place}",
    ]
    if as_json:
        document = {"folder": str(folder.resolve()), "name": made.name, "side": made.side, "written": made.written}
        console.print_json({**document, "entry_point": made.entry_point, "container": made.container, "next": commands})
        return
    out.print(
        f"adopted  {safe_text(made.name)}, side {made.side}; its script is {safe_text(made.entry_point)}",
        soft_wrap=True,
    )
    out.print(f"written  {place}: {', '.join(made.written)}", soft_wrap=True)
    for number, command in enumerate(commands):
        out.print(f"{'' if number else 'next':8} {command}", soft_wrap=True)
    if made.container:
        text = f"its container {safe_text(made.container)} is not used; the Dockerfile's BASE says what it stands on"
        err.print(f"[yellow]note:[/] {text}", soft_wrap=True)
    if not is_osi_approved(licence):
        err.print(
            "[yellow]warning:[/] without an OSI-approved licence it is not ranked in the end (A6)", soft_wrap=True
        )
