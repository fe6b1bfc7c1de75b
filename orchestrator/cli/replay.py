"""`sparring replay`: plays a finding again, for people who doubt it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from orchestrator.application.findings import reproduce_finding
from orchestrator.application.findings.reproduce_finding import ReproducedFinding
from orchestrator.cli import console
from orchestrator.cli.console import ExitCode, Json, err, out, safe_text
from orchestrator.domain.findings import Finding, FindingKind
from orchestrator.domain.outcomes import answer_text
from orchestrator.domain.text import counted_noun
from orchestrator.execution.reproduction import (
    Inconsistency,
    QuestionRow,
    ReproducedSession,
    Reproduction,
    SeenDecision,
)
from orchestrator.reports.evidence import finding_text

MAX_LINES = 8
"""The most lines of a list that are shown; the JSON document has all of them."""

AnswerText = Callable[[int], str]


@console.command
def replay(
    finding: Annotated[str, typer.Argument(help="The finding's id, or its beginning.", metavar="FINDING")],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir", help="The folder of the round that has the finding; default: this one, else demo.", file_okay=False
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option("--backend", help="Where players run: as in the round, or docker for one played on a cluster."),
    ] = None,
    allow_unisolated: Annotated[
        bool, typer.Option("--allow-unisolated", help="Let strangers' submissions run on the process backend.")
    ] = False,
    recorded_seeds: Annotated[
        bool, typer.Option("--recorded-seeds", help="Give sandboxes the recorded seeds; default: fresh ones.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Play what proved a finding again, in fresh sandboxes with the same image, and say whether it shows again.

    Exits with 1 if it does not. The command writes nothing to the round.
    """
    place = reproduce_finding.find_round_folder(folder)
    done = reproduce_finding.reproduce(
        place, finding, backend=backend, allow_unisolated=allow_unisolated, recorded_seeds=recorded_seeds
    )
    if as_json:
        console.print_json(_document(done))
    else:
        _print_report(done)
    if not done.reproduction.reproduced:
        raise typer.Exit(ExitCode.FAILED)


def _document(done: ReproducedFinding) -> dict[str, Any]:
    return {
        "reproduced": done.reproduction.reproduced,
        "finding": asdict(done.finding),
        "backend": done.backend,
        **asdict(done.reproduction),
        "faults": [fault.model_dump() for fault in done.reproduction.faults],
    }


def _print_report(done: ReproducedFinding) -> None:
    finding, reproduction = done.finding, done.reproduction

    def answer(value: int) -> str:
        return safe_text(answer_text(value, done.classes))

    out.print(
        f"[bold]finding {finding.id}[/] against {safe_text(finding.submission)}: {finding.kind.value}", soft_wrap=True
    )
    out.print(f"  {finding_text(finding.kind, done.submission.side)}", soft_wrap=True)
    out.print(f"  {safe_text(finding.summary)}", soft_wrap=True)
    ran = "a fresh copy of its files" if reproduction.fresh_copy else "itself"
    rules = ", ".join(finding.rules)
    out.print(f"  rules {rules}; image {finding.image} on {done.backend}; played now from {ran}", soft_wrap=True)
    if reproduction.changed_examples:
        _print_pictures(reproduction)
    else:
        _print_sessions(finding, reproduction, answer)
    for fault in reproduction.faults[:MAX_LINES]:
        out.print(f"  fault: {fault.code} on {fault.pictures} pictures: {safe_text(fault.message)}", soft_wrap=True)
    if reproduction.reproduced:
        out.print("[bold red]reproduced[/]: it shows again")
    else:
        err.print(
            "not reproduced: this time it does not show; what depends on chance may need several tries, and what "
            "depends on the seed may need --recorded-seeds",
            markup=False,
        )
        out.print("[bold]not reproduced[/]")


def _print_sessions(finding: Finding, reproduction: Reproduction, answer: AnswerText) -> None:
    last = reproduction.sessions[-1]
    repeats = (
        "the seeds on record" if reproduction.recorded_seeds else "fresh seeds, one for two sessions that shared one"
    )
    out.print(f"repeated: the recorded questions and pauses, in fresh sandboxes that are told {repeats}")
    if finding.sequence:
        length = finding.length
        description = f"{counted_noun(length, 'question')}, {_batch_text(last)}"
        out.print(f"the smallest sequence that shows it, in a fresh sandbox: {description}", soft_wrap=True)
        out.print(_table(list(enumerate(last.rows[:length])), answer))
        if finding.answer_alone is not None:
            now = _answer_alone(reproduction.sessions, last.rows[length - 1])
            again = "not asked" if now is None else answer(now)
            out.print(f"its last picture by itself: {answer(finding.answer_alone)} then, {again} now", soft_wrap=True)
    for session in reproduction.sessions:
        seed = "none" if session.seed is None else str(session.seed)
        same = sum(line.answer_on_record == line.answer_now for line in session.rows)
        out.print(
            f"session {session.step} ({safe_text(session.purpose)}): {counted_noun(len(session.rows), 'question')}, "
            f"{_batch_text(session)}, "
            f"seed {seed}: {same} of {len(session.rows)} answers as then",
            soft_wrap=True,
        )
        if not finding.sequence:
            odd = [
                (place, line) for place, line in enumerate(session.rows) if _is_suspicious(line, finding, reproduction)
            ]
            if odd:
                out.print(_table(odd, answer))
    if finding.kind is FindingKind.REFUSED:
        out.print(f"{counted_noun(reproduction.refused, 'question')} answered in play and refused or late now")
        return
    if reproduction.pairs:
        out.print(f"{reproduction.pairs_reproduced} of {reproduction.pairs} pairs of sequence and control show it now")
    out.print(f"{counted_noun(len(reproduction.inconsistencies), 'question')} with more than one decision now")
    for inconsistency in reproduction.inconsistencies[:MAX_LINES]:
        out.print(f"  {_inconsistency_text(inconsistency, answer)}", soft_wrap=True)
    if len(reproduction.inconsistencies) > MAX_LINES:
        out.print(f"  and {len(reproduction.inconsistencies) - MAX_LINES} more; all of them with --json")


def _print_pictures(reproduction: Reproduction) -> None:
    odd = [picture for picture in reproduction.changed_examples if any(picture.values_changed)]
    out.print(
        f"{len(odd)} of {reproduction.compared} pictures are others than in play; the attack was asked twice more"
    )
    if odd:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for name in ("picture", "values changed first", "second", "between the two", "largest"):
            table.add_column(name, justify="right")
        for picture in odd[:MAX_LINES]:
            largest = f"{picture.largest_change}/255"
            table.add_row(
                str(picture.picture), *map(str, picture.values_changed), str(picture.values_changed_between), largest
            )
        out.print(table)


def _table(lines: Sequence[tuple[int, QuestionRow]], answer: AnswerText) -> Table:
    """Returns a table of questions with their answers; if there are many, only the first and the last ones."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("question", justify="right")
    for name in ("pictures of", "picture", "after silence", "in play", "then", "now", "claimed margin"):
        table.add_column(name, overflow="fold")
    half = MAX_LINES // 2
    entries = list(lines) if len(lines) <= MAX_LINES else [*lines[:half], None, *lines[-half:]]
    for entry in entries:
        if entry is None:
            table.add_row("...")
            continue
        place, line = entry
        table.add_row(
            str(place + 1),
            safe_text(line.attack or "clean"),
            str(line.picture),
            f"{line.pause:.1f} s" if line.pause else "",
            answer(line.answer_in_play),
            answer(line.answer_on_record),
            "refused" if line.refused else answer(line.answer_now),
            "" if line.margin is None else f"{line.margin:.2g}",
        )
    return table


def _is_suspicious(line: QuestionRow, finding: Finding, reproduction: Reproduction) -> bool:
    if finding.kind is FindingKind.REFUSED:
        return line.refused
    return any((line.attack, line.picture) == (found.attack, found.picture) for found in reproduction.inconsistencies)


def _answer_alone(sessions: Sequence[ReproducedSession], suspect: QuestionRow) -> int | None:
    """Returns the present answer to a picture that was the first question of a session; None without such a session."""
    for session in sessions[:-1]:
        first = session.rows[0]
        if (first.attack, first.picture) == (suspect.attack, suspect.picture):
            return first.answer_now
    return None


def _inconsistency_text(inconsistency: Inconsistency, answer: AnswerText) -> str:
    def place(given: SeenDecision) -> str:
        where = "in play" if given.step is None else f"in session {given.step}, question {given.position + 1}"
        return f"{answer(given.answer)} {where}"

    return (
        f"{safe_text(inconsistency.attack or 'clean')}, picture {inconsistency.picture}: "
        f"{'; '.join(map(place, inconsistency.decisions))}"
    )


def _batch_text(session: ReproducedSession) -> str:
    return "one picture at a time" if session.batch == 1 else f"{session.batch} pictures in one question"
