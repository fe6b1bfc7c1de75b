"""`sparring cluster`: what organizers do with a Kubernetes cluster before and after a contest's rounds."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.application.kubernetes import render_jobs
from orchestrator.cli import cluster_check, cluster_push, console, manifest_output
from orchestrator.cli.console import Json
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import contest_file

app = typer.Typer(no_args_is_help=True, help="Play rounds on a Kubernetes cluster.")
app.command("check", epilog="Example: sparring cluster check contest.yaml --context gpu-cluster")(cluster_check.check)
app.command("push", epilog="Example: sparring cluster push cup")(cluster_push.push)
app.command("sweep", epilog="Example: sparring cluster sweep round1")(cluster_check.sweep)


@app.command("render", epilog="Example: sparring cluster render examples/demo/contest.yaml --offline")
@console.command
def render(
    contest: Annotated[Path, typer.Argument(help="The contest file, or its folder.", metavar="CONTEST")],
    task: Annotated[str | None, typer.Option("--task", help="One task of several.")] = None,
    whole: Annotated[
        bool, typer.Option("--all", help="Every job of the plan, not only those that wait for no other.")
    ] = False,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline", help="Ask no registry, and do without pictures that are not here: placeholders stand for them."
        ),
    ] = False,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The folder of a round that was begun: for the names of its Jobs.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the objects that a round would create on the cluster, for review. Creates nothing, and asks no cluster.

    The output is a stream of YAML documents, as kubectl reads them.
    """
    rendered = render_jobs.render_jobs(
        Contest(contest_file(contest)), render_jobs.RenderRequest(task, whole, offline, out_dir)
    )
    if as_json:
        console.print_json(manifest_output.manifest_document(rendered, offline=offline))
    else:
        manifest_output.print_manifests(rendered, offline=offline)
