"""Forecasts the cost of replays before anything is played."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.domain.plan import Cell
from orchestrator.domain.tasks import Isolation
from orchestrator.execution.round_context import RoundContext
from orchestrator.integrity import detection_power
from orchestrator.integrity.detection_power import ReplayCost, SamplingDesign


@dataclass(frozen=True)
class ReplayForecast:
    """A contest's design of replays, and the most that it costs for each defence, by id."""

    task: str
    design: SamplingDesign
    costs: dict[str, ReplayCost]
    attacks: int


def forecast_replays(context: RoundContext, cells: Sequence[Cell]) -> ReplayForecast:
    """Returns the replays' cost for these cells, if every adversarial example is played and every question answered."""
    counts, pictures = Counter(cell.defence for cell in cells), context.task.count
    mixed, batch = context.isolation is Isolation.ROUND, context.limits.classify_batch
    costs = {
        defence: detection_power.replay_cost(count * pictures, pictures, context.replay, batch=batch, mixed=mixed)
        for defence, count in counts.items()
        if context.replay.power
    }
    attacks = len({cell.attack for cell in cells} - {None})
    return ReplayForecast(context.task.name, context.replay, costs, attacks)
