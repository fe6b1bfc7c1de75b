"""`sparring image`."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from orchestrator import composition
from orchestrator.application.baselines import shipped_images
from orchestrator.application.submissions import load_image
from orchestrator.cli import console, output_paths
from orchestrator.cli.console import ExitCode, Json, out, safe_text
from orchestrator.domain.text import printable
from orchestrator.errors import Problem
from orchestrator.intake import image_check
from orchestrator.intake.image_check import Inspection

app = typer.Typer(no_args_is_help=True, help="Build the shipped images, look at images, and bring them in.")
ImageBackendName = Annotated[
    str, typer.Option("--backend", help="Where the image is or goes: runc, docker, or container (runc, else docker).")
]


@app.callback()
def _group() -> None:
    """Build the shipped images, look at images, and bring them in."""


@app.command("build", epilog="Example: sparring image build base")
@console.command
def build(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="base: what submissions stand on; runner, service; or folders of submissions. Default: all shipped.",
            metavar="[base|runner|service|PATH]...",
        ),
    ] = None,
    cuda: Annotated[bool, typer.Option("--cuda", help="Build what uses a GPU, with PyTorch's CUDA build.")] = False,
    as_json: Json = False,
) -> None:
    """Build the base images and those of the organizers' baselines with Docker. Wheels are downloaded by pip first.

    Submissions that are built later need the base images only. Exits with 3 when something is missing here.
    """
    work = output_paths.cache_folder() / "images"
    built = shipped_images.build_images(what or (), work, cuda=cuda, on_line=console.print_log_line)
    if as_json:
        console.print_json({"built": built})
        return
    for name in built:
        out.print(safe_text(name), soft_wrap=True)


@app.command("load", epilog="Example: sparring image load my_attack.sparring.tar --name team/entry:1")
@console.command
def load(
    path: Annotated[
        Path, typer.Argument(help="A package, or a folder with one image in the OCI layout.", show_default=False)
    ],
    name: Annotated[str, typer.Option("--name", help="What the image is called here.", show_default=False)],
    backend: ImageBackendName = composition.CONTAINER,
    as_json: Json = False,
) -> None:
    """Load the image of a package or of a folder, so that contest files and commands can name it; print its id.

    The command first checks every byte, as for a submission. Exits with 1 if the image is refused.
    """
    with tempfile.TemporaryDirectory(prefix="sparring-image-") as workspace:
        image_store = composition.make_backend(backend, Path(workspace)).image_store()
        identity = load_image.load_image(path, name, image_store, Path(workspace))
    if as_json:
        console.print_json({"name": name, "id": identity})
    else:
        out.print(f"{safe_text(name)}  {identity}", soft_wrap=True)


@app.command("inspect", epilog="Example: sparring image inspect team/entry:1")
@console.command
def inspect(
    reference: Annotated[str, typer.Argument(help="The image's name or id. Nothing is pulled.", show_default=False)],
    backend: ImageBackendName = composition.CONTAINER,
    as_json: Json = False,
) -> None:
    """Read an image's configuration and files without starting it, and show what admission would refuse.

    Exits with 1 when the image would not be admitted.
    """
    with tempfile.TemporaryDirectory(prefix="sparring-image-") as workspace:
        inspection = image_check.inspect_image(composition.make_backend(backend, Path(workspace)), reference)
    document = _document(inspection)
    if as_json:
        console.print_json(document)
    else:
        _print_image(document, inspection)
    if inspection.refused:
        raise typer.Exit(ExitCode.FAILED)


def _document(inspection: Inspection) -> dict[str, Any]:
    facts = inspection.facts
    variables = [each.partition("=") for each in facts.environment]
    return {
        "id": facts.image_id,
        "size": facts.size,
        "layers": list(facts.layers),
        "user": printable(facts.user),
        "entrypoint": image_check.display_command(facts.entrypoint),
        "command": image_check.display_command(facts.command),
        "working_directory": printable(facts.folder),
        "volumes": [printable(each) for each in facts.volumes],
        "ports": [printable(each) for each in facts.ports],
        "healthcheck": image_check.display_command(facts.healthcheck),
        "onbuild": [image_check.display_command([each]) for each in facts.on_build],
        "labels": {printable(name): image_check.display_value(name, value) for name, value in facts.labels.items()},
        "environment": {printable(name): image_check.display_value(name, value) for name, _, value in variables},
        "files": None
        if facts.tree is None
        else {"count": facts.tree.files, "bytes": facts.tree.size, **facts.tree.names},
        "refused": _problem_rows(inspection.refused),
        "warnings": _problem_rows(inspection.warnings),
        "admitted": not inspection.refused,
    }


def _problem_rows(problems: Sequence[Problem]) -> list[dict[str, str]]:
    return [{"place": each.place, "what": each.what, "remedy": each.remedy} for each in problems]


def _print_image(document: dict[str, Any], inspection: Inspection) -> None:
    facts = inspection.facts
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    layers = ", ".join(_size_text(size) for size in facts.layers)
    table.add_row("id", safe_text(facts.image_id))
    table.add_row("size", f"{_size_text(facts.size)} in {len(facts.layers)} layers: {layers}")
    for name in ("user", "entrypoint", "command", "working_directory", "healthcheck"):
        table.add_row(name.replace("_", " "), safe_text(str(document[name])) or "-")
    for name in ("volumes", "ports", "onbuild"):
        table.add_row(name, safe_text(", ".join(document[name])) or "-")
    for name in ("environment", "labels"):
        rows = [f"{safe_text(key)}={safe_text(value)}" for key, value in document[name].items()]
        table.add_row(name, "\n".join(rows) or "-")
    if facts.tree is not None:
        table.add_row("files", f"{facts.tree.files}, {_size_text(facts.tree.size)}")
    out.print(table)
    for colour, word, problems in (("yellow", "warning", inspection.warnings), ("red", "refused", inspection.refused)):
        for problem in problems:
            out.print(f"[{colour}]{word}:[/] {safe_text(str(problem), 1000)}", soft_wrap=True)
    out.print("[red]not admitted[/]" if inspection.refused else "[green]admitted[/]")


def _size_text(count: int) -> str:
    """Returns a number of bytes with a unit, for people."""
    return f"{count / 1024**2:.1f} MiB" if count >= 1024**2 else f"{count} bytes"
