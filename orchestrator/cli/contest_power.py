"""`sparring contest power`: forecasts what a contest's boards could distinguish, and its cost."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from orchestrator.application.contests import contest_power
from orchestrator.application.contests.contest_power import ContestForecast, PlannedSize, StatedTimes
from orchestrator.cli import console
from orchestrator.cli.console import Json, err, out, safe_text
from orchestrator.cli.estimate_output import duration_text
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import contest_file
from orchestrator.scoring.power_simulation import StatedGrades, StatedRates

_HOUR = 3600


@dataclass(frozen=True, slots=True)
class SizeOptions:
    """The planned size of the contest."""

    attacks: Annotated[
        int, typer.Option("--attacks", min=1, max=10_000, help="Attacks, or archives of pictures, expected.")
    ] = 8
    defences: Annotated[int, typer.Option("--defences", min=1, max=10_000, help="Defences expected.")] = 8
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Rounds with other seeds that a score is a mean of.")] = 1
    slots: Annotated[int, typer.Option("--slots", min=1, help="Jobs at once.")] = 1
    items: Annotated[int, typer.Option("--items", min=1, help="Pictures of each submission that a rater grades.")] = 20


@dataclass(frozen=True, slots=True)
class RateOptions:
    """The expected rates of submissions and raters."""

    clean: Annotated[float, typer.Option("--clean", min=0.001, max=0.999, help="Accuracy on clean pictures.")] = 0.9
    attacked: Annotated[
        float, typer.Option("--attacked", min=0.001, max=0.999, help="Accuracy of the middle defence when attacked.")
    ] = 0.5
    gap: Annotated[float, typer.Option("--gap", min=0.01, help="Percentage points between two neighbours.")] = 2.0
    shared: Annotated[
        float, typer.Option("--shared", min=0, max=1, help="Part of a picture's difficulty that all cells share.")
    ] = 0.5
    seed_spread: Annotated[
        float, typer.Option("--seed-spread", min=0, help="Standard deviation of a score between seeds, in points.")
    ] = 0.0
    grade_gap: Annotated[float, typer.Option("--grade-gap", min=0.001, help="Grades between two neighbours.")] = 0.2


@dataclass(frozen=True, slots=True)
class TimeOptions:
    """The expected times."""

    perturb_seconds: Annotated[
        float, typer.Option("--perturb-seconds", min=0, help="Seconds of an attack for a picture.")
    ] = 1.0
    classify_seconds: Annotated[
        float, typer.Option("--classify-seconds", min=0, help="Seconds of a defence for a picture.")
    ] = 0.02
    start_seconds: Annotated[
        float, typer.Option("--start-seconds", min=0, help="Seconds until a sandbox is ready.")
    ] = 2.0
    answer_seconds: Annotated[
        float, typer.Option("--answer-seconds", min=0, help="Seconds of a rater for an item.")
    ] = 6.0


@console.command
def power(
    contest: Annotated[Path, typer.Argument(help="A contest file, or a contest's folder.", metavar="CONTEST")],
    size: SizeOptions,
    rates: RateOptions,
    times: TimeOptions,
    target: Annotated[
        float,
        typer.Option(
            "--target", min=0.5, max=0.999, help="Wanted probability that two neighbours stand in their true order."
        ),
    ] = 0.9,
    rounds: Annotated[int, typer.Option("--rounds", min=20, max=100_000, help="Simulated rounds.")] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the simulation.")] = 0,
    as_json: Json = False,
) -> None:
    """Simulate a contest under stated rates: how many pictures, seeds, replays and raters tell neighbours apart.

    Nothing is played. The rates are yours: look at what a contest like it measured. Warns where a prize would hang on
    noise.
    """
    if err.is_terminal and not as_json:
        err.print(f"simulating {rounds} rounds", style="dim")
    forecast = contest_power.forecast_contest(
        Contest(contest_file(contest)),
        StatedRates(rates.clean, rates.attacked, rates.gap, rates.shared, rates.seed_spread),
        StatedGrades(gap=rates.grade_gap),
        PlannedSize(size.attacks, size.defences, size.seeds, size.slots, size.items),
        StatedTimes(times.perturb_seconds, times.classify_seconds, times.start_seconds, times.answer_seconds),
        target=target,
        rounds=rounds,
        seed=seed,
    )
    if as_json:
        stated = {"size": asdict(size), "rates": asdict(rates), "times": asdict(times), "rounds": rounds, "seed": seed}
        console.print_json({"stated": stated, **asdict(forecast)})
        return
    given = asdict(size) | asdict(rates) | asdict(times)
    out.print("stated: " + " ".join(f"--{name.replace('_', '-')} {value}" for name, value in given.items()))
    _print_forecast(forecast, rounds)


def _print_forecast(forecast: ContestForecast, rounds: int) -> None:
    for name, needed in forecast.needed.items():
        rows = [board for board in forecast.boards if board.board == name]
        out.rule(safe_text(rows[0].title))
        table = _table("pictures", "seeds", "first place right", "neighbours in order", "told apart at 95 %")
        for row in rows:
            mark = " *" if row.pictures == forecast.pictures else ""
            shares = (f"{share:.0%}" for share in (row.first_wins, row.in_order, row.told_apart))
            table.add_row(f"{row.pictures:,}{mark}", str(row.seeds), *shares)
        out.print(table)
        enough = f"{needed:,} pictures are enough" if needed else "none of these sizes is enough"
        out.print(f"neighbours in order with probability {forecast.target:.0%}: {enough}", soft_wrap=True)
    _print_costs(forecast)
    out.print(
        f"* the contest as its file has it. {rounds} simulated rounds: a probability may be off by "
        f"{1 / rounds**0.5:.0%}.",
        soft_wrap=True,
    )
    for warning in forecast.warnings:
        console.print_warning(warning)


def _print_costs(forecast: ContestForecast) -> None:
    out.rule("What a round takes")
    table = _table("pictures", "cells", "sandboxes", "time", "replayed", "accuses a cheat by chance")
    for cost in forecast.costs:
        mark = " *" if cost.pictures == forecast.pictures else ""
        promised = cost.replays.detection_power
        table.add_row(
            f"{cost.pictures:,}{mark}",
            f"{cost.cells:,}",
            f"{cost.sandboxes:,}",
            duration_text(cost.hours * _HOUR),
            f"{cost.replays.share:.1%}",
            f"{min(promised.chance, promised.start):.0%}",
        )
    out.print(table)
    if forecast.raters:
        out.rule("Raters")
        table = _table("raters", "neighbours in order", "work of all")
        for each in forecast.raters:
            table.add_row(f"{each.raters}", f"{each.in_order:.0%}", duration_text(each.hours * _HOUR))
        out.print(table)
        needed = forecast.needed_raters
        enough = f"{needed} raters are enough" if needed else "none of these numbers of raters is enough"
        out.print(f"neighbours in order with probability {forecast.target:.0%}: {enough}", soft_wrap=True)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="right")
    return table
