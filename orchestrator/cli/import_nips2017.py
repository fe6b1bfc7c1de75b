"""`sparring submission import`: makes a submission of a folder in the NIPS 2017 layout."""

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from orchestrator.cli import console
from orchestrator.cli.console import Json, err, out, safe_text
from orchestrator.domain.licences import is_osi_approved
from orchestrator.intake import adopt_nips2017, scaffold


@console.command
def import_folder(
    folder: Annotated[Path, typer.Argument(help="The folder with a metadata.json.", show_default=False)],
    name: Annotated[str, typer.Option("--name", help="Its name; by default the folder's.")] = "",
    labels_from: Annotated[
        int, typer.Option("--labels-from", min=0, max=1, help="The number that a defence's first class has: 0 or 1.")
    ] = 0,
    licence: Annotated[str, typer.Option("--licence", "--license", help="The SPDX id of its licence (A6).")] = "",
    as_json: Json = False,
) -> None:
    """Make a submission of a folder in the NIPS 2017 layout: write its manifest, and change nothing else.

    A Dockerfile and a .dockerignore are written where there are none.
    `sparring submission adopt`, the former name, works too.
    """
    request = adopt_nips2017.AdoptionRequest(name, cast("Literal[0, 1]", labels_from), licence)
    adoption = adopt_nips2017.adopt_folder(folder, request)
    place = safe_text(str(folder))
    commands = [
        f"sparring submission check {place}",
        f"sparring submission try {place} --against {scaffold.FIRST_OPPONENT[adoption.side]}",
        f"sparring submission pack {place}",
    ]
    if as_json:
        document = {
            "folder": str(folder.resolve()),
            "name": adoption.name,
            "side": adoption.side,
            "written": adoption.written_files,
        }
        console.print_json(
            {**document, "entry_point": adoption.entry_point, "container": adoption.container, "next": commands}
        )
        return
    out.print(
        f"imported {safe_text(adoption.name)}, side {adoption.side}; its script is {safe_text(adoption.entry_point)}",
        soft_wrap=True,
    )
    out.print(f"written  {place}: {', '.join(adoption.written_files)}", soft_wrap=True)
    for number, command in enumerate(commands):
        out.print(f"{'' if number else 'next':8} {command}", soft_wrap=True)
    if adoption.container:
        text = (
            f"its container {safe_text(adoption.container)} is not used; the Dockerfile's BASE says what it stands on"
        )
        console.print_sentences(err, f"[yellow]note:[/] {text}")
    if not is_osi_approved(licence):
        console.print_warning("without an OSI-approved licence it is not ranked in the end (A6)", err)
