"""Forecasts what a planned contest's boards could distinguish, and what the contest would cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.domain.plan import Cell
from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import Isolation
from orchestrator.intake import admission
from orchestrator.intake.contest_file import Contest
from orchestrator.integrity import detection_power
from orchestrator.integrity.detection_power import ReplayCost
from orchestrator.scoring import power_simulation
from orchestrator.scoring.power_simulation import BoardPower, StatedGrades, StatedRates

PICTURES = (100, 300, 1000, 3000, 10_000)
"""The numbers of pictures that are simulated besides the contest's own."""
SEEDS = (1, 3, 5, 10)
"""The numbers of seeds that are simulated if scores differ between seeds."""
RATERS = (3, 5, 10, 15, 20, 30, 50)
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class PlannedSize:
    """The planned size of a contest.

    A score is the mean of `seeds` rounds with different seeds. `slots` is the number of jobs at once, and `rater_items`
    the number of pictures of each submission that one rater grades.
    """

    attacks: int = 8
    defences: int = 8
    seeds: int = 1
    slots: int = 1
    rater_items: int = 20


@dataclass(frozen=True, slots=True)
class StatedTimes:
    """Expected times in seconds: `perturb` and `classify` of one picture, a sandbox's start, and a rater's answer."""

    perturb: float = 1.0
    classify: float = 0.02
    start: float = 2.0
    answer: float = 6.0


@dataclass(frozen=True, slots=True)
class PlannedCost:
    """The cost of one round with this number of pictures; `replays` is the cost of one defence's replays."""

    pictures: int
    cells: int
    sandboxes: int
    hours: float
    replays: ReplayCost


@dataclass(frozen=True, slots=True)
class RaterPower:
    """The probability that this many raters order two neighbours correctly, and the hours that they work in all."""

    raters: int
    in_order: float
    hours: float


@dataclass(frozen=True)
class ContestForecast:
    """The results of a simulation.

    `pictures` is the number of pictures of the contest's smallest task. `needed` is, by board, the smallest simulated
    number of pictures with which neighbours are in order with probability `target`, None if no number suffices;
    `needed_raters` is the same for raters.
    """

    pictures: int
    target: float
    boards: list[BoardPower]
    costs: list[PlannedCost]
    raters: list[RaterPower]
    needed: dict[str, int | None]
    needed_raters: int | None
    warnings: list[str]


def forecast_contest(
    contest: Contest,
    rates: StatedRates,
    grades: StatedGrades,
    size: PlannedSize,
    times: StatedTimes,
    *,
    target: float,
    rounds: int,
    seed: int,
) -> ContestForecast:
    """Returns the power and the cost of a contest of this size. Raises Rejected for a contest file with problems."""
    tasks, roster = admission.check_contest(contest)
    own = min(task.count for task in tasks)
    planned = power_simulation.planned_roster(contest.format, roster, size.attacks, size.defences)
    counts = sorted({own, *PICTURES})
    sizes = [(count, size.seeds) for count in counts]
    if rates.seed_spread:
        sizes += [(own, seeds) for seeds in SEEDS if seeds != size.seeds]
    boards = power_simulation.simulate_contest(contest.format, planned, rates, sizes, rounds=rounds, seed=seed)
    cells = contest.format.schedule(planned)
    costs = [_cost(contest, cells, count, len(tasks), size, times) for count in counts]
    raters = _rater_power(contest, grades, size, times, rounds=rounds, seed=seed)
    needed = {
        name: next(
            (b.pictures for b in boards if (b.board, b.seeds) == (name, size.seeds) and b.in_order >= target), None
        )
        for name in dict.fromkeys(board.board for board in boards)
    }
    return ContestForecast(
        own,
        target,
        boards,
        costs,
        raters,
        needed,
        next((each.raters for each in raters if each.in_order >= target), None),
        _warnings(boards, costs, raters, own, size, target, rates),
    )


def _cost(
    contest: Contest, cells: Sequence[Cell], pictures: int, tasks: int, size: PlannedSize, times: StatedTimes
) -> PlannedCost:
    """Returns the cost of one round on all tasks, if every question is answered in the stated time."""
    made: set[str] = {cell.attack for cell in cells if cell.attack is not None}
    defences = {cell.defence for cell in cells}
    mixed = contest.file.isolation is Isolation.ROUND
    per_defence = len(cells) * pictures // max(1, len(defences))
    replays = detection_power.replay_cost(
        per_defence, pictures, contest.file.replay.design(), batch=int(contest.file.limits.classify_batch), mixed=mixed
    )
    played = len(made) + (len(defences) if mixed else len(cells))
    sandboxes = tasks * (played + len(defences) * replays.sandboxes)
    seconds = (
        tasks * pictures * (len(made) * times.perturb + len(cells) * times.classify)
        + tasks * len(defences) * replays.asked * times.classify
        + sandboxes * times.start
    )
    return PlannedCost(pictures, tasks * len(cells), sandboxes, size.seeds * seconds / size.slots / _HOUR, replays)


def _rater_power(
    contest: Contest, grades: StatedGrades, size: PlannedSize, times: StatedTimes, *, rounds: int, seed: int
) -> list[RaterPower]:
    """Returns the power by number of raters, each grading every planned submission; nothing if nobody grades."""
    if contest.format.human_grading() is None:
        return []
    graded = size.attacks if Side.DEFENCE not in contest.format.programs else size.attacks + size.defences
    found = power_simulation.simulate_grading(grades, RATERS, size.rater_items, rounds=rounds, seed=seed)
    return [
        RaterPower(count, in_order, count * graded * size.rater_items * times.answer / _HOUR)
        for count, in_order in found
    ]


def _warnings(
    boards: Sequence[BoardPower],
    costs: Sequence[PlannedCost],
    raters: Sequence[RaterPower],
    own: int,
    size: PlannedSize,
    target: float,
    rates: StatedRates,
) -> list[str]:
    """Returns warnings about prizes that depend on noise and about weak replays, each one to three sentences."""
    found = [
        f"{board.title}: with the contest's {own} pictures a submission that is not the best stands first in "
        f"{1 - board.first_wins:.0%} of contests. A prize for the first place alone hangs on noise: take more "
        f"pictures, share prizes among rows that the board cannot tell apart, or pay by thresholds."
        for board in boards
        if (board.pictures, board.seeds) == (own, size.seeds) and board.first_wins < target
    ]
    if rates.seed_spread:
        found.append(
            "A board's intervals describe the choice of pictures and not chance between seeds: "
            "`sparring explain statistics#planning-a-contest`."
        )
    replays = next(cost.replays for cost in costs if cost.pictures == own)
    if replays.drawn and min(replays.detection_power.chance, replays.detection_power.start) < target:
        found.append(
            f"With {own} pictures replays accuse a defence that cheats by chance with probability "
            f"{replays.detection_power.chance:.2f} only, and one that draws at its start with "
            f"{replays.detection_power.start:.2f}."
        )
    if raters and all(each.in_order < target for each in raters):
        found.append(f"Not even {raters[-1].raters} raters order two neighbours rightly with probability {target:.2f}.")
    return found
