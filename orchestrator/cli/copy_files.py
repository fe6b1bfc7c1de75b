"""`sparring copy`."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.application.contests import shipped_files
from orchestrator.cli import console, output_paths
from orchestrator.cli.console import Json, out, safe_text


@console.command
def copy(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="A shipped folder or file: examples, images/attack_fgsm, schemas/protocol.md; default: list them.",
            metavar="[NAME]...",
        ),
    ] = None,
    into: Annotated[Path, typer.Option("--out", help="The folder below which they go.", file_okay=False)] = Path(),
    as_json: Json = False,
) -> None:
    """Copy shipped examples, baselines, schemas or a cluster's objects to where you can change them.

    They get the same paths as in the repository, so that they find each other.
    """
    if not names:
        lines = shipped_files.list_shipped()
    else:
        lines = [
            str(path) for path in shipped_files.copy_shipped(names, output_paths.require_folder_path(into, "--out"))
        ]
    if as_json:
        console.print_json({"copied" if names else "shipped": lines})
        return
    for line in lines:
        out.print(safe_text(line), soft_wrap=True)
