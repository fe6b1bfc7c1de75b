"""`sparring cluster push`: the images of a contest, from this machine's engine to the cluster's registry."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import composition
from orchestrator.application.kubernetes import push_images
from orchestrator.application.kubernetes.push_images import PushResult, PushState
from orchestrator.cli import console
from orchestrator.cli.console import ExitCode, Json, out, safe_text


@console.command
def push(
    place: Annotated[Path, typer.Argument(help="A contest file, or a contest's folder.", metavar="FILE|DIR")],
    as_json: Json = False,
) -> None:
    """Push the images that a cluster needs and its registry lacks: the runner's, the contest file's, the received ones.

    Images that are already there stay as they are. Exits with 1 if an image is neither here nor there,
    or would not be admitted.
    """
    settings, listed = push_images.required_images(place)
    done: list[PushResult] = []
    with tempfile.TemporaryDirectory(prefix="sparring-push-") as workspace:
        backend = composition.make_backend("docker", Path(workspace))
        backend.require_available()
        for result in push_images.push_missing(settings, listed, backend):
            done.append(result)
            if not as_json:
                _print_image(result)
    missing = any(result.state in {PushState.MISSING, PushState.REFUSED} for result in done)
    if as_json:
        console.print_json({"ok": not missing, "images": [asdict(result) for result in done]})
    if missing:
        raise typer.Exit(ExitCode.FAILED)


def _print_image(result: PushResult) -> None:
    colour = {PushState.MISSING: "red", PushState.REFUSED: "red", PushState.ELSEWHERE: "yellow"}.get(
        result.state, "green"
    )
    rest = result.reference or f"{result.image}: {result.reason}"
    out.print(f"[{colour}]{result.state.value:9}[/] {safe_text(result.owner)}  {safe_text(rest)}", soft_wrap=True)
