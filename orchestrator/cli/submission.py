"""`sparring submission`: the commands for participants, from an empty folder to a package that can be submitted."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import (
    console,
    contest_lists,
    import_nips2017,
    output_paths,
    submission_check,
    submission_logs,
    submission_package,
)
from orchestrator.cli.console import Json, err, out, parse_side, safe_text
from orchestrator.domain.licences import is_osi_approved
from orchestrator.domain.submissions import Side
from orchestrator.intake import scaffold
from orchestrator.intake.scaffold import Framework

app = typer.Typer(no_args_is_help=True, help="Make an attack or a defence, and see that it will be accepted.")


app.command("list", epilog="Example: sparring submission list cup --task digits")(contest_lists.submissions)
app.command("logs", epilog="Example: sparring submission logs cup corners --round initial")(submission_logs.logs)
app.command("build", epilog="Example: sparring submission build my_attack")(submission_package.build)
app.command("pack", epilog="Example: sparring submission pack my_attack --out my_attack.sparring.tar")(
    submission_package.pack
)
app.command("import", epilog="Example: sparring submission import my_attack_2017 --name my_attack")(
    import_nips2017.import_folder
)
app.command("adopt", hidden=True, epilog="Example: sparring submission adopt my_attack_2017 --name my_attack")(
    import_nips2017.import_folder
)
app.command("check", epilog="Example: sparring submission check my_attack --backend docker")(submission_check.check)
app.command("try", epilog="Example: sparring submission try my_attack --against undefended")(submission_check.try_)
app.command("debug", epilog="Example: sparring submission debug my_attack --save talk.jsonl")(submission_check.debug)


@app.callback()
def _group() -> None:
    """Make an attack or a defence, and see that it will be accepted."""


@app.command("init", epilog="Example: sparring submission init attack my_attack --framework pytorch")
@console.command
def init(
    side: Annotated[
        Side, typer.Argument(parser=parse_side, metavar="attack|defence", help="Attack or defence.", show_default=False)
    ],
    name: Annotated[str, typer.Argument(help="Its name: lower case, digits, - and _.", show_default=False)],
    framework: Annotated[Framework, typer.Option(help="What the player is written with.")] = Framework.NUMPY,
    folder: Annotated[Path | None, typer.Option("--out", help="The new folder; by default the name.")] = None,
    licence: Annotated[
        str, typer.Option("--licence", "--license", help="The SPDX id of its licence (A6).")
    ] = scaffold.DEFAULT_LICENCE,
    as_json: Json = False,
) -> None:
    """Make a folder that plays at once: manifest, player, image recipe, README and licence.

    The one thing to change in the player is marked.
    """
    if folder is not None:
        output_paths.require_folder_path(folder, "--out")
    created = scaffold.create_submission(scaffold.ScaffoldRequest(side, name, framework, licence), folder or Path(name))
    open_licence = is_osi_approved(licence)
    if as_json:
        document = {
            "folder": str(created.folder),
            "files": created.files,
            "player": created.player,
            "next": created.commands,
        }
        console.print_json({**document, "licence": licence, "osi_approved": open_licence})
        return
    place = safe_text(str(folder or Path(name)))
    out.print(f"made     {place}: {', '.join(created.files)}", soft_wrap=True)
    out.print(f"change   {place}/{created.player}, at the line that says {scaffold.EDIT_MARK}", soft_wrap=True)
    out.print(
        f"licence  {safe_text(licence)}, in LICENSE and submission.yaml: yours to choose, see --licence", soft_wrap=True
    )
    for number, command in enumerate(created.commands):
        out.print(f"{'' if number else 'next':8} {safe_text(command)}", soft_wrap=True)
    if not open_licence:
        console.print_warning(f"{licence} is not the SPDX id of an OSI-approved licence (A6)", err)
