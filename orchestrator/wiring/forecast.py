"""What replays will cost, said before anything is played."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.arena.setting import Setting
from orchestrator.domain.plan import Cell
from orchestrator.domain.tasks import Isolation
from orchestrator.replay import power
from orchestrator.replay.power import Cost, Design


@dataclass(frozen=True)
class Forecast:
    """What a contest asks of its replays, and what that costs each defence at most, by its id."""

    task: str
    design: Design
    costs: dict[str, Cost]
    attacks: int


def replays(setting: Setting, cells: Sequence[Cell]) -> Forecast:
    """Returns what the replays of these cells cost, if every candidate is played and every question answered."""
    counts, pictures = Counter(cell.defence for cell in cells), setting.task.count
    mixed, batch = setting.isolation is Isolation.ROUND, setting.limits.classify_batch
    costs = {
        defence: power.cost(count * pictures, pictures, setting.replay, batch=batch, mixed=mixed)
        for defence, count in counts.items()
        if setting.replay.power
    }
    attacks = len({cell.attack for cell in cells} - {None})
    return Forecast(setting.task.name, setting.replay, costs, attacks)
