"""`sparring submission`: what a participant does, from an empty folder to a submission that is handed in."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import adopting, console, packing, places, trial
from orchestrator.cli.console import Json, err, out, safe
from orchestrator.domain.submissions import Side
from orchestrator.intake import scaffold
from orchestrator.intake.scaffold import Framework
from orchestrator.wiring.standings import osi_approved

app = typer.Typer(no_args_is_help=True, help="Make an attack or a defence, and see that it will be accepted.")


app.command("build", epilog="Example: sparring submission build my_attack")(packing.build)
app.command("pack", epilog="Example: sparring submission pack my_attack --out my_attack.sparring.tar")(packing.pack)
app.command("adopt", epilog="Example: sparring submission adopt my_attack_2017 --name my_attack")(adopting.adopt)
app.command("check", epilog="Example: sparring submission check my_attack --backend docker")(trial.check)
app.command("try", epilog="Example: sparring submission try my_attack --against undefended")(trial.try_)
app.command("debug", epilog="Example: sparring submission debug my_attack --save talk.jsonl")(trial.debug)


@app.callback()
def _group() -> None:
    """Make an attack or a defence, and see that it will be accepted."""


@app.command("init", epilog="Example: sparring submission init attack my_attack --framework pytorch")
@console.command
def init(
    side: Annotated[Side, typer.Argument(help="Attack or defence.", show_default=False)],
    name: Annotated[str, typer.Argument(help="Its name: lower case, digits, - and _.", show_default=False)],
    framework: Annotated[Framework, typer.Option(help="What the player is written with.")] = Framework.NUMPY,
    folder: Annotated[Path | None, typer.Option("--out", help="The new folder; by default the name.")] = None,
    licence: Annotated[str, typer.Option(help="The SPDX id of its licence (A6).")] = scaffold.OUR_LICENCE,
    as_json: Json = False,
) -> None:
    """Make a folder that plays at once: manifest, player, image recipe, README and licence.

    The one thing to change in the player is marked.
    """
    if folder is not None:
        places.for_folder(folder, "--out")
    made = scaffold.make(scaffold.Wanted(side, name, framework, licence), folder or Path(name))
    open_licence = osi_approved(licence)
    if as_json:
        document = {"folder": str(made.folder), "files": made.files, "player": made.player, "next": made.commands}
        console.emit({**document, "licence": licence, "osi_approved": open_licence})
        return
    place = safe(str(folder or Path(name)))
    out.print(f"made     {place}: {', '.join(made.files)}", soft_wrap=True)
    out.print(f"change   {place}/{made.player}, at the line that says {scaffold.MARK}", soft_wrap=True)
    out.print(
        f"licence  {safe(licence)}, in LICENSE and submission.yaml: yours to choose, see --licence", soft_wrap=True
    )
    for number, command in enumerate(made.commands):
        out.print(f"{'' if number else 'next':8} {safe(command)}", soft_wrap=True)
    if not open_licence:
        err.print(f"[yellow]warning:[/] {safe(licence)} is no SPDX id of an OSI-approved licence (A6)", soft_wrap=True)
