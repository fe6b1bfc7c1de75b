"""`sparring cluster push`: the images of a contest, from this machine's engine to the cluster's registry."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import console
from orchestrator.cli.console import ExitCode, Json, out, safe
from orchestrator.wiring import machine, pushing
from orchestrator.wiring.pushing import Pushed, State


@console.command
def push(
    place: Annotated[Path, typer.Argument(help="A contest file, or a contest's folder.", metavar="FILE|DIR")],
    as_json: Json = False,
) -> None:
    """Push the images that a cluster needs and its registry lacks: the runner's, the contest file's, the received ones.

    What is there already is left alone. Exits with 1 when an image is neither here nor there, or would not be admitted.
    """
    settings, listed = pushing.wanted(place)
    done: list[Pushed] = []
    with tempfile.TemporaryDirectory(prefix="sparring-push-") as workspace:
        backend = machine.backend("docker", Path(workspace))
        backend.check()
        for each in pushing.push(settings, listed, backend):
            done.append(each)
            if not as_json:
                _show(each)
    missing = any(each.state in {State.MISSING, State.REFUSED} for each in done)
    if as_json:
        console.emit({"ok": not missing, "images": [asdict(each) for each in done]})
    if missing:
        raise typer.Exit(ExitCode.FAILED)


def _show(each: Pushed) -> None:
    colour = {State.MISSING: "red", State.REFUSED: "red", State.ELSEWHERE: "yellow"}.get(each.state, "green")
    rest = each.reference or f"{each.image}: {each.why}"
    out.print(f"[{colour}]{each.state.value:9}[/] {safe(each.who)}  {safe(rest)}", soft_wrap=True)
