"""Replays on a terminal: what they will cost, what they covered, and what they found."""

import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import structlog
from rich import box
from rich.table import Table

from orchestrator.cli.console import err, out, safe
from orchestrator.replay.power import Cost, Design, Promise
from orchestrator.results.document import FindingPart, Results
from orchestrator.results.report import evidence
from orchestrator.results.report.standings import people_of
from orchestrator.wiring.forecast import Forecast

_log = structlog.get_logger()


def announcing(*, log_json: bool) -> Callable[[Forecast], None]:
    """Returns what says, before anything is played, what replays will cost: in sentences, or as log events."""
    return logged if log_json else forecast


def logged(found: Forecast) -> None:
    """Logs what replays will cost each defence, and what they are good for; and what is asked of attacks again."""
    log = _log.bind(task=found.task)
    for defence, cost in found.costs.items():
        amounts = asdict(cost) | {"share": round(cost.share, 6), "short": cost.promise.short_of(found.design.power)}
        log.info("replays_forecast", submission=defence, cheat=found.design.cheat, **amounts)
    if found.design.attacks and found.attacks:
        log.info("attack_replays_forecast", attacks=found.attacks, share=found.design.attacks)


def forecast(found: Forecast) -> None:
    """Says on stderr what replays will cost, and what they are good for, before anything is played."""
    design = found.design
    groups: dict[Cost, list[str]] = {}
    for defence, cost in found.costs.items():
        groups.setdefault(cost, []).append(defence)
    for cost, defences in groups.items():
        who = f"each of {len(defences)} defences" if len(defences) > 1 else defences[0]
        others = cost.again + cost.twin + cost.alone
        companions = f"up to {cost.companions:,} clean companions and " if cost.companions else ""
        err.print(
            f"replays of {safe(who)} on {safe(found.task)}: of {cost.questions:,} questions {cost.drawn:,} are drawn "
            f"and asked again, with {companions}{others:,} others: "
            f"{100 * cost.share:.1f} % of the play, {cost.sandboxes} fresh sandboxes",
            soft_wrap=True,
        )
        for line in promised(design, cost.promise):
            err.print(f"  {line}", soft_wrap=True)
    if design.attacks and found.attacks:
        err.print(
            f"replays of {found.attacks} attacks on {safe(found.task)}: {100 * design.attacks:g} % of their questions, "
            "twice where the first time differs",
            soft_wrap=True,
        )


def promised(design: Design, promise: Promise) -> list[str]:
    """Returns what replays promise, in sentences; where that is less than the contest asks for, a warning."""
    sequence, chance, start = (evidence.power(each) for each in (promise.sequence, promise.chance, promise.start))
    clashes = (
        f"who changes {100 * design.cheat:g} % of its answers clashes with a probability of "
        f"{evidence.power(promise.clash)}; whoever clashes is asked more"
    )
    accused = (
        f"and is accused with a probability of {sequence} where a sequence of questions repeats it, {chance} where it "
        f"is by chance, {start} where a start or the company decides"
    )
    lines = [clashes, accused]
    if promise.short_of(design.power):
        lines.append(
            f"warning: that is less than replay.power ({evidence.power(design.power)}): so few questions do not tell "
            f"such a cheat from devices that disagree on {100 * design.noise:g} %; raise replay.cheat, lower "
            "replay.noise, or play more pictures"
        )
    return lines


def findings(document: Results, folder: Path | None, indent: str = "") -> None:
    """Prints each finding with the sequence that shows it and the command that plays it again."""
    where = "DIR" if folder is None else shlex.quote(str(folder))
    for part in document.findings:
        _finding(document, part, evidence.command(part.id, document.backend, where), indent)


def _finding(document: Results, part: FindingPart, command: str, indent: str) -> None:
    shown = evidence.evidence_of(document, part, people_of(document))
    head = f"[bold red]finding {part.id}[/] against {safe(part.submission)}, {part.kind.value}: {shown.kind}"
    out.print(f"{indent}{head}", soft_wrap=True)
    out.print(f"{indent}  {safe(part.summary)}", soft_wrap=True)
    if shown.sequence:
        asked = ", ".join(
            f"{one.number}: {safe(one.against)} {one.picture} -> {safe(one.answer)}"
            + (f" after {one.pause}" if one.pause else "")
            if one.number
            else safe(one.answer)
            for one in shown.sequence
        )
        alone = f"; by itself: {safe(shown.alone)}" if shown.alone else ""
        out.print(f"{indent}  smallest sequence: {asked}{alone}", soft_wrap=True)
    out.print(f"{indent}  see it again: {safe(command)}", soft_wrap=True)


def covered(document: Results) -> None:
    """Prints what the replays of each defence covered."""
    lines = evidence.covered(document, people_of(document))
    if not lines:
        return
    design = document.replay
    planned = f"planned {evidence.power(design.power)} that a cheat of {100 * design.cheat:g}% of the answers clashes"
    out.print(f"[bold]Replays[/]: {planned}; accused: by a sequence / by chance / by its start")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("defence", overflow="fold")
    for name in ("questions", "drawn", "decided", "clashes with", "accused with", "noise", "refused", "late"):
        table.add_column(name, justify="right")
    table.add_column("ran from", overflow="fold")
    table.add_column("outcome", overflow="fold")
    for one in lines:
        part, achieved = one.part, f"[bold red]{one.achieved}[/]" if one.short else one.achieved
        counts = (part.questions, part.drawn, part.decided, achieved, " / ".join(one.accused))
        failures = (part.noise, part.refused, part.late)
        outcome = one.outcome if one.clear else f"[bold red]{one.outcome}[/]"
        table.add_row(safe(part.submission), *map(str, (*counts, *failures)), one.ran_from, outcome)
    out.print(table)
