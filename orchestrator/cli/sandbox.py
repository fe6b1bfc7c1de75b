"""`sparring sandbox`: the self-test of this machine's sandbox, with a table for the organizers' records."""

import platform
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from orchestrator import __version__, composition, resources
from orchestrator.application.rounds import gpu_check
from orchestrator.cli import console
from orchestrator.cli.console import ExitCode, Json, err, out, safe_text
from orchestrator.domain.policy import Runtime
from orchestrator.sandbox_selftest import selftest
from orchestrator.sandbox_selftest.context import Context
from orchestrator.sandbox_selftest.expectation import read_catalogue
from orchestrator.sandbox_selftest.outcome import ProgramOutcome, Verdict
from orchestrator.sandboxes.base import Check

app = typer.Typer(no_args_is_help=True, help="What strangers' code can and cannot do here.")

_COLOURS = {
    Verdict.CONTAINED: "green",
    Verdict.PROVED: "green",
    Verdict.GOT_THROUGH: "bold red",
    Verdict.UNPROVED: "bold red",
    Verdict.KNOWN_FAILURE: "yellow",
    Verdict.SKIPPED: "dim",
}
_UNISOLATED = "This backend contains nothing: it is for code that you wrote or read. Play strangers in containers."


@app.command("check", epilog="Example: sparring sandbox check --prove")
@console.command
def check(
    backend: Annotated[
        str,
        typer.Option(
            "--backend", help="runc, docker, or container: runc where it works, else docker. process contains nothing."
        ),
    ] = composition.CONTAINER,
    runtime: Annotated[Runtime, typer.Option("--runtime", help="What runs the containers.")] = Runtime.RUNC,
    prove: Annotated[
        bool, typer.Option("--prove", help="Run each program again without the control that stops it.")
    ] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="A program or a family; may be repeated.")] = None,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Give every program the first GPU, as `limits.gpus: 1` gives it to players.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Attack the sandbox with the hostile programs, and show what stopped each program.

    Exits with 1 when anything got through, or, with --prove, when a program does no harm without its control.
    """
    programs = selftest.select_programs(read_catalogue(resources.hostile_programs_path()), only or [])
    device = gpu_check.first_gpu().uuid if gpu else None
    outcomes: list[ProgramOutcome] = []
    with tempfile.TemporaryDirectory(prefix="sparring-selftest-") as workspace:
        context, facts = selftest.prepare_context(
            composition.make_backend(backend, Path(workspace), runtime=runtime, gpus=int(gpu)),
            runtime,
            Path(workspace),
            device,
        )
        header = _machine_header(context, facts, datetime.now(UTC))
        total = len(selftest.plan_runs(programs, prove=prove))
        for outcome in selftest.run_programs(programs, context, prove=prove):
            outcomes.append(outcome)
            err.print(f"[{len(outcomes)}/{total}] {outcome.program}: {outcome.verdict}", markup=False)
    isolates = backend != selftest.UNISOLATED_BACKEND
    fine = isolates and all(outcome.is_fine for outcome in outcomes)
    if as_json:
        rows = [{**asdict(outcome), "fine": outcome.is_fine} for outcome in outcomes]
        console.print_json({"ok": fine, "machine": header, "programs": rows, "totals": _verdict_totals(outcomes)})
    else:
        _print_outcomes(header, outcomes)
        if not isolates:
            out.print(f"[bold red]{_UNISOLATED}[/]")
    if not fine:
        raise typer.Exit(ExitCode.FAILED)


def _machine_header(context: Context, facts: Sequence[Check], now: datetime) -> dict[str, str]:
    """Returns a description of the machine of the self-test, without which a table proves nothing to later readers."""
    return {
        "date": now.strftime("%Y-%m-%d %H:%M:%S UTC"),
        "machine": f"{platform.node()}, {platform.machine()}",
        "kernel": f"{platform.system()} {platform.release()}",
        "sparring": __version__,
        "backend": context.backend.name,
        "runtime": context.runtime.value,
        "programs have": context.device or "no GPU",
        **{fact.name: f"{fact.status.value}, {fact.detail}" for fact in facts},
    }


def _verdict_totals(outcomes: Sequence[ProgramOutcome]) -> dict[str, int]:
    counted = Counter(outcome.verdict for outcome in outcomes)
    return {verdict.value: counted[verdict] for verdict in Verdict}


def _print_outcomes(header: dict[str, str], outcomes: Sequence[ProgramOutcome]) -> None:
    for name, value in header.items():
        out.print(f"{safe_text(name)}: {safe_text(value)}", soft_wrap=True)
    table = Table(show_header=True, show_lines=True)
    for column, share in (("program", 2), ("attempted", 4), ("stopped by", 2), ("evidence", 6), ("verdict", 1)):
        table.add_column(column, overflow="fold", ratio=share)
    for outcome in outcomes:
        verdict = f"[{_COLOURS[outcome.verdict]}]{outcome.verdict}[/]"
        texts = (outcome.program, outcome.attempt, outcome.control, outcome.evidence)
        table.add_row(*(safe_text(text, 600) for text in texts), verdict)
    out.print(table)
    found = ", ".join(f"{count} {verdict}" for verdict, count in _verdict_totals(outcomes).items() if count)
    out.print(f"{len(outcomes)} runs: {found}")
