"""Prints `sparring round run --dry-run`: what would run, what would be reused, and how long it would take."""

from dataclasses import asdict
from typing import Any

from rich import box
from rich.table import Table

from orchestrator.cli import console
from orchestrator.cli.console import out, safe_text
from orchestrator.domain.text import counted_noun
from orchestrator.execution.estimate import RunEstimate, StageEstimate

_HOUR = 3600
_MINUTE = 60


def print_estimates(found: list[RunEstimate], price: float | None, *, as_json: bool) -> None:
    """Prints the estimate of each task of a round; `price` is the price of a slot for an hour."""
    if as_json:
        console.print_json([_document(one, price) for one in found])
        return
    for one in found:
        out.rule(f"{safe_text(one.task)}, {safe_text(one.round)} round: nothing is played")
        table = Table(
            box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption="starts: of containers, before any is replaced"
        )
        table.add_column("stage")
        for name in ("to play", "done", "reused", "cells", "questions", "starts", "expected", "at most"):
            table.add_column(name, justify="right", no_wrap=True)
        for stage in one.stages:
            table.add_row(*_stage_row(stage))
        out.print(table)
        out.print(_estimate_summary(one, price), soft_wrap=True)


def duration_text(seconds: float | None) -> str:
    """Returns a duration in words: `unknown` for None, else like `12 s`, `3 min` or `2.5 h`."""
    if seconds is None:
        return "unknown"
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:,.1f} h"


def _stage_row(stage: StageEstimate) -> tuple[str, ...]:
    counts = (stage.jobs, stage.finished, stage.reused, stage.cells, stage.questions, stage.sandboxes)
    return (
        stage.stage.value,
        *(f"{count:,}" for count in counts),
        duration_text(stage.expected_seconds),
        duration_text(stage.max_seconds),
    )


def _estimate_summary(one: RunEstimate, price: float | None) -> str:
    if not any(stage.jobs for stage in one.stages):
        return "everything is played: running it again only writes the results"
    slots = counted_noun(one.slots, "slot")
    expected = "nothing like it was played yet, so no time is expected"
    if one.expected_seconds is not None:
        expected = f"about {duration_text(one.expected_seconds / one.slots)}, from what was played before"
    text = f"on {slots}: {expected}; at most {duration_text(one.max_seconds / one.slots)}, if every deadline is used up"
    if price is None:
        return text
    costs = "not known" if one.expected_seconds is None else f"about {one.expected_seconds / _HOUR * price:,.2f}"
    return f"{text}\nat {price:g} an hour and slot: {costs}; at most {one.max_seconds / _HOUR * price:,.2f}"


def _document(one: RunEstimate, price: float | None) -> dict[str, Any]:
    sums = {
        "seconds": None if one.expected_seconds is None else round(one.expected_seconds, 3),
        "at_most": round(one.max_seconds, 3),
        "wall_seconds": None if one.expected_seconds is None else round(one.expected_seconds / one.slots, 3),
    }
    if price is not None:
        sums |= {"cost": None if one.expected_seconds is None else round(one.expected_seconds / _HOUR * price, 4)}
        sums |= {"cost_at_most": round(one.max_seconds / _HOUR * price, 4)}
    stages = [asdict(stage) | {"stage": stage.stage.value} for stage in one.stages]
    return {"task": one.task, "round": one.round, "slots": one.slots, "stages": stages} | sums
