"""The command line: one app, its groups in the order of a contest."""

import gc
import sys
from typing import Annotated

import typer

from orchestrator import __version__, logs
from orchestrator.cli import (
    appeals,
    baseline,
    cluster,
    contest_lists,
    contests,
    copy_files,
    doctor,
    evaluate,
    explain,
    grading,
    images,
    pod,
    publish,
    remote,
    replay,
    roles,
    rounds,
    sandbox,
    season,
    serve,
    status,
    submission,
    tick,
    work,
)
from orchestrator.cli.console import run_app

app = typer.Typer(
    name="sparring",
    no_args_is_help=True,
    help="Attack-versus-defence competitions for image classifiers, played between isolated containers.",
    epilog="Exit codes: 0 fine, 1 the submission's fault or a failed check, 2 usage, 3 infrastructure, 130 cancelled.",
    pretty_exceptions_show_locals=False,
)
app.command("demo", epilog="Example: sparring demo --out demo --backend docker")(rounds.demo)
app.add_typer(contests.app, name="contest")
season.team.command("list", epilog="Example: sparring team list cup")(contest_lists.teams)
app.add_typer(season.team, name="team")
app.add_typer(roles.app, name="role")
app.add_typer(submission.app, name="submission")
app.command("evaluate", epilog="Example: sparring evaluate my_defence --contest contest.yaml --pictures 20")(
    evaluate.evaluate
)
app.command(
    "submit",
    epilog="Example: sparring submit cup my_attack --team 'Corner Shop' --task digits\n\n"
    "Example: sparring submit my_attack --to https://cup.example.org --team 'Corner Shop'",
)(season.submit)
app.command("login", epilog="Example: sparring login https://cup.example.org")(remote.login)
app.command("logout", epilog="Example: sparring logout https://cup.example.org")(remote.logout)
app.command("withdraw", epilog="Example: sparring withdraw cup corners --reason 'the team found a bug'")(
    season.withdraw
)
app.command("disqualify", epilog="Example: sparring disqualify cup corners --reason 'two people, one team'")(
    season.disqualify
)
app.command("set-source", epilog="Example: sparring set-source cup corners --licence MIT --reason 'published late'")(
    season.set_source
)
app.command("correct", hidden=True, epilog="Example: sparring correct cup corners --licence MIT --reason 'late'")(
    season.set_source
)
app.add_typer(appeals.app, name="appeal")
app.add_typer(rounds.app, name="round")
app.command("work", epilog="Example: sparring work cup --backend docker")(work.work)
app.command("tick", epilog="Example: sparring tick weeks")(tick.tick)
app.add_typer(grading.app, name="grade")
app.command("board", epilog="Example: sparring board cup --round final")(season.board)
app.command("status", epilog="Example: sparring status --from https://cup.example.org")(status.status)
app.command("rescore", epilog="Example: sparring rescore cup --apply --reason 'the jury lowered the floor'")(
    season.rescore
)
app.command("rejudge", hidden=True, epilog="Example: sparring rejudge cup --drop --reason 'no rule changes'")(
    season.rescore
)
app.command("replay", epilog="Example: sparring replay 3f2a --dir round1")(replay.replay)
app.command("report", epilog="Example: sparring report round1")(rounds.report)
app.command("publish", epilog="Example: sparring publish cup --out cup-sealed")(publish.publish)
app.command("verify", epilog="Example: sparring verify cup-sealed --key sha256:...")(publish.verify)
app.command("serve", epilog="Example: sparring serve cup --address https://cup.example.org --host 0.0.0.0")(serve.serve)
app.command("explain", epilog="Example: sparring explain deadline")(explain.explain)
app.command("copy", epilog="Example: sparring copy examples images")(copy_files.copy)
app.command("doctor", epilog="Example: sparring doctor --sweep")(doctor.doctor)
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(images.app, name="image")
app.add_typer(baseline.app, name="baseline")
app.add_typer(cluster.app, name="cluster")
app.add_typer(pod.group(), name="pod", hidden=True)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"sparring {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version_asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Attack-versus-defence competitions for image classifiers, played between isolated containers."""
    logs.configure_logging(quiet=True)  # commands with options for logs set them up again


def main() -> None:
    """Runs the command line. What was imported stays to the end: the garbage collector need never look at it."""
    gc.freeze()
    gc.enable()
    run_app(app, sys.argv[1:])
