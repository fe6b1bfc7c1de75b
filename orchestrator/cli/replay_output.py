"""Prints replays: their expected cost, what they covered, and what they found."""

import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from orchestrator.application.rounds.replay_cost import ReplayForecast
from orchestrator.cli import console
from orchestrator.cli.console import err, out, safe_text
from orchestrator.cli.tables import Column, fitting_tables
from orchestrator.domain.text import counted_noun
from orchestrator.integrity.detection_power import DetectionPower, ReplayCost, SamplingDesign
from orchestrator.logs import get_logger
from orchestrator.reports import evidence
from orchestrator.reports.leaderboards import submission_labels
from orchestrator.scoring.results_file import FindingPart, Results

_log = get_logger()
_RAN_FROM = {
    "yes": "a fresh copy",
    "mount": "a fresh mount",
    "baseline": "its image",
    "backend": "its image",
    "unrecorded": "its image",
}
"""The source of a replay's sandboxes, as a column shows it."""
_WHY_NO_COPY = {
    "baseline": "its image: no copy is made of the organizers' own players.",
    "backend": "its image: this backend makes no copies of submissions.",
    "unrecorded": "its image: no copy of it is on record.",
}
"""Why it was no copy, shown once below the table instead of in each row, where it would take four lines."""


def forecast_announcer(*, log_json: bool) -> Callable[[ReplayForecast], None]:
    """Returns the callback that announces the replays' cost before a round: as sentences, or as log events."""
    return log_forecast if log_json else print_forecast


def log_forecast(found: ReplayForecast) -> None:
    """Logs the cost and the detection power of each defence's replays, and the attacks' questions asked again."""
    log = _log.bind(task=found.task)
    for defence, cost in found.costs.items():
        amounts = asdict(cost) | {
            "share": round(cost.share, 6),
            "short": cost.detection_power.is_below(found.design.power),
        }
        log.info("replays_forecast", submission=defence, cheat=found.design.cheat, **amounts)
    if found.design.attacks and found.attacks:
        log.info("attack_replays_forecast", attacks=found.attacks, share=found.design.attacks)


def print_forecast(found: ReplayForecast) -> None:
    """Prints on stderr the cost and the detection power of replays, before anything is played."""
    design = found.design
    groups: dict[ReplayCost, list[str]] = {}
    for defence, cost in found.costs.items():
        groups.setdefault(cost, []).append(defence)
    for cost, defences in groups.items():
        defence_text = f"each of {len(defences)} defences" if len(defences) > 1 else defences[0]
        others = cost.repeated + cost.same_order + cost.single
        companions = f"up to {cost.clean_first:,} clean pictures before them, and " if cost.clean_first else ""
        console.print_sentences(
            err,
            f"replays of {safe_text(defence_text)} on {safe_text(found.task)}: {cost.drawn:,} of "
            f"{counted_noun(cost.questions, 'question')} are drawn and asked again, with {companions}"
            f"{others:,} others. This adds {100 * cost.share:.1f} % to the questions of the play, in "
            f"{counted_noun(cost.sandboxes, 'fresh sandbox', 'fresh sandboxes')}.",
        )
        for line in detection_lines(design, cost.detection_power):
            console.print_sentences(err, f"  {line}")
    if design.attacks and found.attacks:
        err.print(
            f"replays of {found.attacks} attacks on {safe_text(found.task)}: {100 * design.attacks:g} % of "
            f"their questions, "
            "twice where the first time differs",
            soft_wrap=True,
        )


def detection_lines(design: SamplingDesign, promise: DetectionPower) -> list[str]:
    """Returns the detection power of replays in sentences, with a warning if it is less than the contest asks for."""
    sequence, chance, start = (evidence.power_text(each) for each in (promise.sequence, promise.chance, promise.start))
    mismatches = (
        f"A defence that changes {100 * design.cheat:g} % of its answers has a mismatch with a probability of "
        f"{evidence.power_text(promise.mismatch)}. A defence with a mismatch is asked more questions."
    )
    accused = (
        f"It is accused with a probability of {sequence} if a sequence of questions repeats the change, of {chance} if "
        f"it changes answers by chance, and of {start} if the start of its sandbox or the other pictures of a question "
        "decide."
    )
    lines = [mismatches, accused]
    if promise.is_below(design.power):
        lines.append(
            f"warning: the least of these is below replay.power ({evidence.power_text(design.power)}). With so few "
            f"questions such a cheat cannot be told from devices that disagree on {100 * design.noise:g} % of the "
            "answers: raise replay.cheat, lower replay.noise, or play more pictures."
        )
    return lines


def print_findings(document: Results, folder: Path | None, indent: str = "") -> None:
    """Prints each finding with the sequence that proves it and the command that plays it again."""
    where = "DIR" if folder is None else shlex.quote(str(folder))
    for part in document.findings:
        _print_finding(document, part, evidence.reproduce_command(part.id, document.backend, where), indent)


def _print_finding(document: Results, part: FindingPart, command: str, indent: str) -> None:
    details = evidence.evidence_of(document, part, submission_labels(document))
    head = (
        f"[bold red]finding {part.id}[/] against {safe_text(part.submission)}, {part.kind.value}: {details.kind_text}"
    )
    out.print(f"{indent}{head}", soft_wrap=True)
    out.print(f"{indent}  {safe_text(part.summary)}", soft_wrap=True)
    if details.sequence:
        sequence_text = ", ".join(
            f"{one.number}: {safe_text(one.pictures_of)} {one.picture} -> {safe_text(one.answer)}"
            + (f" after {one.pause}" if one.pause else "")
            if one.number
            else safe_text(one.answer)
            for one in details.sequence
        )
        alone = f"; by itself: {safe_text(details.alone)}" if details.alone else ""
        out.print(f"{indent}  smallest sequence: {sequence_text}{alone}", soft_wrap=True)
    out.print(f"{indent}  see it again: {safe_text(command)}", soft_wrap=True)


def print_coverage(document: Results) -> None:
    """Prints what the replays of each defence covered."""
    lines = evidence.replay_coverage(document, submission_labels(document))
    if not lines:
        return
    design = document.replay
    console.print_sentences(
        out,
        f"[bold]Replays[/]: planned so that a defence that changes {100 * design.cheat:g}% of its answers has a "
        f"mismatch with a probability of {evidence.power_text(design.power)}. It is accused with the first of three "
        "probabilities if a sequence of questions repeats the change, with the second if it comes by chance, and with "
        "the third if the start decides.",
    )
    numbers = {
        "questions": [str(one.part.questions) for one in lines],
        "drawn": [str(one.part.drawn) for one in lines],
        "decided": [str(one.part.decided) for one in lines],
        "mismatch with": [f"[bold red]{one.achieved}[/]" if one.below_plan else one.achieved for one in lines],
        "accused with": [" / ".join(one.accused) for one in lines],
        "noise": [str(one.part.noise) for one in lines],
        "refused": [str(one.part.refused) for one in lines],
        "late": [str(one.part.late) for one in lines],
    }
    outcomes = [one.outcome if one.is_clear else f"[bold red]{one.outcome}[/]" for one in lines]
    columns = [
        Column("defence", [safe_text(one.part.submission) + (one.check and f", {one.check}") for one in lines]),
        *(Column(title, cells, is_number=True) for title, cells in numbers.items()),
        Column("ran from", [_RAN_FROM[one.part.fresh_copy] for one in lines]),
        Column("outcome", outcomes, is_sentence=True),
    ]
    for table in fitting_tables(columns):
        out.print(table)
    for why in dict.fromkeys(_WHY_NO_COPY.get(one.part.fresh_copy, "") for one in lines):
        if why:
            console.print_sentences(out, why)
    if any(one.check for one in lines):
        console.print_sentences(
            out,
            "1 of 2: a defence has a line for each check, because a later round's questions are checked by themselves.",
        )
