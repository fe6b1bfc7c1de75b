"""Simulates rounds to estimate how well a planned contest distinguishes neighbours on its leaderboards (X5).

The organizers assume rates: how accurate defences are, how far neighbours on a leaderboard are apart, how much of a
picture's difficulty all cells share. The leaderboards are the format's own, and rows are compared by the test of played
rounds (`measures.uncertainty`), so a planned contest is judged like a played one. docs/statistics.md has the model.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.contest_format import Format, Observations
from orchestrator.domain.leaderboard import ScoreTerms
from orchestrator.domain.outcomes import Tally
from orchestrator.domain.plan import Cell
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.errors import UsageError
from orchestrator.measures import uncertainty
from orchestrator.scoring import intervals

_EXACT_PICTURES = 10**6
"""Pictures of the round that is used only to get the terms of the format's scores; rates are rounded to such shares."""


@dataclass(frozen=True, slots=True)
class StatedRates:
    """The rates that organizers expect in a contest.

    `clean` and `attacked` are the accuracies, 0 to 1, of the middle defence on clean pictures and under the middle
    attack. Neighbours of a side are `gap` percentage points apart. `shared` is the part, 0 to 1, of a picture's
    difficulty that is the same in every cell. `seed_spread` is the standard deviation, in points, of one submission's
    score between runs with other seeds.
    """

    clean: float = 0.9
    attacked: float = 0.5
    gap: float = 2.0
    shared: float = 0.5
    seed_spread: float = 0.0


@dataclass(frozen=True, slots=True)
class BoardPower:
    """How well a leaderboard of `pictures` pictures, with scores averaged over `seeds`, distinguishes submissions.

    The probabilities are from 0 to 1. `first_wins`: the best submission is first. `in_order`: two neighbours are in
    their true order. `told_apart`: the leaderboard shows that the right one of two neighbours is better, significantly
    at 95 %.
    """

    board: str
    title: str
    pictures: int
    seeds: int
    first_wins: float
    in_order: float
    told_apart: float


@dataclass(frozen=True, eq=False)
class _PlannedBoard:
    """The terms of the scores of a leaderboard's rows, in their true order, best first."""

    name: str
    title: str
    more_is_better: bool
    terms: tuple[ScoreTerms, ...]


def planned_roster(contest_format: Format[Any], baselines: Roster, attacks: int, defences: int) -> Roster:
    """Returns the contest's baselines and the planned submissions, each of another team, the best of a side first."""
    counts = {Side.ATTACK: attacks, Side.DEFENCE: defences}
    planned = [
        Submission(id=(name := f"planned-{side}-{number}"), name=name, team=name, side=side, digest=name, image="")
        for side in contest_format.programs or (Side.ATTACK,)
        for number in range(1, counts[side] + 1)
    ]
    return Roster((*(each for each in baselines if each.baseline), *planned))


def simulate_contest(
    contest_format: Format[Any],
    roster: Roster,
    rates: StatedRates,
    sizes: Sequence[tuple[int, int]],
    *,
    rounds: int,
    seed: int,
) -> list[BoardPower]:
    """Returns how well each leaderboard distinguishes submissions, for each size.

    Args:
        contest_format: the format with its rules.
        roster: baselines and planned submissions, from `planned_roster`.
        rates: the expected rates.
        sizes: pairs of a number of pictures and a number of seeds.
        rounds: how many rounds are simulated; the Monte Carlo error of a probability is at most 0.5 / sqrt(rounds).
        seed: the seed of the simulation.

    Raises:
        UsageError: accuracies would not be between 0 and `clean`, or there is no leaderboard with two rows.
    """
    accuracies = _cell_accuracies(contest_format, roster, rates)
    boards = _planned_boards(contest_format, roster, accuracies)
    if not boards:
        planned = Counter(each.side for each in roster if not each.baseline)
        if max(planned.values(), default=0) > 1:
            raise UsageError(
                f"no board of the format {contest_format.name} follows from accuracies; such a contest is not simulated"
            )
        raise UsageError("no board would have two rows: plan at least two submissions of a side")
    counts = {(board.name, *size): np.zeros(3) for board in boards for size in sizes}
    random = np.random.default_rng(seed)
    for correct in _simulated_rounds(accuracies, rates.shared, max(n for n, _ in sizes), rounds, random):
        for board in boards:
            held = [np.stack([correct[cell] for cell in terms]) for terms in board.terms]
            parts = np.stack([intervals.contributions(*row) for row in zip(board.terms, held, strict=True)])
            largest = intervals.largest_points(board.terms)
            for pictures, seeds in sizes:
                spread = random.normal(0.0, rates.seed_spread / np.sqrt(seeds), len(parts))
                counts[board.name, pictures, seeds] += _tell(board, parts[:, :pictures], spread, largest)
    return [
        BoardPower(board.name, board.title, pictures, seeds, *(counts[board.name, pictures, seeds] / rounds).tolist())
        for board in boards
        for pictures, seeds in sizes
    ]


def _cell_accuracies(contest_format: Format[Any], roster: Roster, rates: StatedRates) -> dict[Cell, float]:
    """Returns the stated accuracy of each cell: planned submissions are around the middle, baselines in the middle."""
    offsets: dict[str, float] = {}
    for side in Side:
        planned = [each.id for each in roster.by_side(side) if not each.baseline]
        middle = (len(planned) - 1) / 2
        offsets |= {name: (middle - place) * rates.gap / 100 for place, name in enumerate(planned)}
    alone = _is_one_share(contest_format)
    found: dict[Cell, float] = {}
    for cell in _cells(contest_format, roster):
        strength = offsets.get(cell.attack, 0.0) if cell.attack else 0.0
        if alone or cell.attack is not None:
            found[cell] = rates.attacked + offsets.get(cell.defence, 0.0) - strength
        else:
            found[cell] = rates.clean
    lowest, highest = min(found.values(), default=0.0), max(found.values(), default=0.0)
    if not (lowest > 0 and highest <= max(rates.clean, rates.attacked) < 1):
        raise UsageError(
            f"with these rates accuracies would lie between {lowest:.2f} and {highest:.2f}: they have to be above 0 "
            f"and at most the clean accuracy; give a smaller --gap, fewer submissions, or other rates"
        )
    return found


def _is_one_share(contest_format: Format[Any]) -> bool:
    """Returns whether scores are simulated as a share of the pictures, because they are not sums of accuracies."""
    return contest_format.play_rules().keep_scores or contest_format.judges_pictures


def _cells(contest_format: Format[Any], roster: Roster) -> tuple[Cell, ...]:
    if _is_one_share(contest_format):
        return tuple(Cell(each.id) for each in roster if not each.baseline)
    return contest_format.schedule(roster)


def _planned_boards(
    contest_format: Format[Any], roster: Roster, accuracies: Mapping[Cell, float]
) -> list[_PlannedBoard]:
    """Returns the leaderboards with at least two rows, ordered by their true scores at the stated rates."""
    if _is_one_share(contest_format):
        made = [
            ("score", "Score, taken as one share of the pictures", True, [{cell: Fraction(1)} for cell in accuracies])
        ]
    else:
        tallies = {cell: _exact_tally(accuracy) for cell, accuracy in accuracies.items()}
        boards = contest_format.leaderboards(Observations(roster=roster, tallies=tallies))
        made = [
            (board.name, board.title, board.more_is_better, [dict(r.score_terms) for r in board.rows if r.rank])
            for board in boards
        ]
    planned = []
    for name, title, more_is_better, rows in made:
        ordered = sorted(rows, key=lambda terms: _true_score(terms, accuracies), reverse=more_is_better)
        if len(ordered) > 1 and all(ordered):
            planned.append(_PlannedBoard(name, title, more_is_better, tuple(ordered)))
    return planned


def _exact_tally(accuracy: float) -> Tally:
    held = round(accuracy * _EXACT_PICTURES)
    return Tally(total=_EXACT_PICTURES, held=held, fooled=_EXACT_PICTURES - held, abstained=0)


def _true_score(terms: ScoreTerms, accuracies: Mapping[Cell, float]) -> float:
    return sum(float(weight) * accuracies[cell] for cell, weight in terms.items())


def _simulated_rounds(
    accuracies: Mapping[Cell, float], shared: float, pictures: int, rounds: int, random: np.random.Generator
) -> Iterator[dict[Cell, NDArray[np.bool_]]]:
    """Yields which pictures held in each cell [n]: those whose difficulty, partly shared, is below its threshold."""
    from scipy.special import ndtri  # noqa: PLC0415  takes a quarter of a second to import

    thresholds = ndtri(np.array(list(accuracies.values()))).astype(np.float32)[:, None]
    common, own = np.float32(np.sqrt(shared)), np.float32(np.sqrt(1 - shared))
    for _ in range(rounds):
        difficulty = common * random.standard_normal(pictures, np.float32)
        difficulty = difficulty + own * random.standard_normal((len(accuracies), pictures), np.float32)
        yield dict(zip(accuracies, difficulty < thresholds, strict=True))


def _tell(
    board: _PlannedBoard, parts: NDArray[np.float64], spread: NDArray[np.float64], largest: float
) -> NDArray[np.float64]:
    """Returns whether the best is first, and the shares of neighbours in order and told apart; a tie counts half."""
    sign = 1 if board.more_is_better else -1
    scores = sign * (parts.mean(axis=1) + spread)
    # Equal means of equal contributions may differ in the last digit.
    scores = np.round(scores, 9)
    leaders = np.flatnonzero(scores == scores.max())
    first = 1 / len(leaders) if 0 in leaders else 0.0
    steps = np.sign(scores[:-1] - scores[1:])
    compared = uncertainty.compare_rows(parts, more_is_better=board.more_is_better, largest=largest)
    apart = np.diagonal(compared.better, offset=1) & (steps > 0)
    return np.array([first, float((steps + 1).mean() / 2), float(apart.mean())])


@dataclass(frozen=True, slots=True)
class StatedGrades:
    """The spreads that organizers expect of raters who give grades from 1 to 5.

    Two neighbours differ by `gap` grades. `picture_spread`, `rater_spread` and `answer_spread` are standard deviations,
    in grades, between pictures, between raters, and of one answer beyond both.
    """

    gap: float = 0.2
    picture_spread: float = 0.7
    rater_spread: float = 0.4
    answer_spread: float = 0.7


def simulate_grading(
    stated: StatedGrades, raters: Sequence[int], items: int, *, rounds: int, seed: int
) -> list[tuple[int, float]]:
    """Returns, for each number of raters, the probability that two neighbours' mean grades are in their true order.

    Every rater grades `items` pictures of both submissions, at the same positions; other raters have other positions.
    """
    random = np.random.default_rng(seed)
    most = max(raters)
    wins = np.zeros(len(raters))
    for _ in range(rounds):
        level = 3 + stated.rater_spread * random.standard_normal((most, 1))
        level = level + stated.picture_spread * random.standard_normal((most, items))
        answers = [
            np.clip(np.rint(level + half + stated.answer_spread * random.standard_normal((most, items))), 1, 5)
            for half in (stated.gap / 2, -stated.gap / 2)
        ]
        ahead = np.cumsum((answers[0] - answers[1]).sum(axis=1))
        wins += [(np.sign(ahead[count - 1]) + 1) / 2 for count in raters]
    return [(count, float(won / rounds)) for count, won in zip(raters, wins, strict=True)]
