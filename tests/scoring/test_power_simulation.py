"""The power of a planned contest: against closed forms where there are, and by what has to follow from what."""

import json
from math import sqrt

import pytest
import scipy
from typer.testing import CliRunner

from orchestrator.cli.app import app
from orchestrator.domain.submissions import Roster
from orchestrator.errors import UsageError
from orchestrator.formats.tournament.format import Tournament
from orchestrator.formats.tournament.rules import TournamentRules
from orchestrator.formats.warmup.format import Warmup
from orchestrator.formats.warmup.rules import WarmupRules
from orchestrator.resources import resource_path
from orchestrator.scoring.power_simulation import (
    StatedGrades,
    StatedRates,
    planned_roster,
    simulate_contest,
    simulate_grading,
)

TEMPLATES = resource_path("examples", "templates")
DEMO = str(resource_path("examples", "demo", "contest.yaml"))
ROUNDS = 400
ERROR = 4 * 0.5 / sqrt(ROUNDS)
"""Four standard errors of a simulated probability."""


def simulate(rates: StatedRates, sizes, *, attacks=2, defences=2, contest_format=None):
    """Returns the power of each board and size."""
    rules = contest_format or Tournament(TournamentRules(clean_floor=None))
    roster = planned_roster(rules, Roster(()), attacks, defences)
    return simulate_contest(rules, roster, rates, sizes, rounds=ROUNDS, seed=1)


def test_one_share_agrees_with_the_closed_form():
    """Two defences that share half of a picture's difficulty: the sign of a mean of paired differences."""
    rates, pictures = StatedRates(attacked=0.6, gap=4.0, shared=0.5), 300
    (found,) = simulate(rates, [(pictures, 1)], contest_format=Warmup(WarmupRules()))
    high, low = 0.62, 0.58
    both = scipy.stats.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]]).cdf(scipy.stats.norm.ppf([high, low]))
    won, lost = high - both, low - both
    spread = sqrt((won + lost - (won - lost) ** 2) / pictures)
    assert found.in_order == pytest.approx(scipy.stats.norm.cdf((won - lost) / spread), abs=ERROR)
    assert found.first_wins == pytest.approx(found.in_order)


def test_neighbours_without_a_gap_are_a_coin():
    """Rows that differ by next to nothing are in order half of the time, and hardly ever told apart."""
    for board in simulate(StatedRates(gap=0.001), [(200, 1)]):
        assert board.in_order == pytest.approx(0.5, abs=ERROR)
        assert board.told_apart <= 0.025 + ERROR


@pytest.mark.slow
def test_more_pictures_tell_more():
    """Every probability grows with the pictures, up to certainty, on both boards of a tournament."""
    boards = simulate(StatedRates(gap=5.0), [(30, 1), (300, 1), (6000, 1)])
    assert {board.board for board in boards} == {"attacks", "defences"}
    for name in ("attacks", "defences"):
        few, some, many = (board for board in boards if board.board == name)
        assert few.told_apart < some.told_apart < many.told_apart
        assert few.in_order < many.in_order
        assert many.first_wins == many.in_order == 1


@pytest.mark.slow
def test_other_seeds_add_noise_that_only_more_seeds_take_away():
    """With many pictures what is left is the spread between seeds: Phi(gap / (spread * sqrt(2 / seeds)))."""
    rates = StatedRates(gap=2.0, seed_spread=4.0)
    (one, nine), _ = [
        [board for board in simulate(rates, [(20_000, 1), (20_000, 9)]) if board.board == name]
        for name in ("attacks", "defences")
    ]
    assert one.in_order == pytest.approx(scipy.stats.norm.cdf(2 / (4 * sqrt(2))), abs=ERROR)
    assert nine.in_order == pytest.approx(scipy.stats.norm.cdf(2 / (4 * sqrt(2 / 9))), abs=ERROR)


def test_impossible_rates_are_refused():
    """Accuracies beyond the clean one, or a board of one row, are told and not clipped."""
    with pytest.raises(UsageError, match="smaller --gap"):
        simulate(StatedRates(gap=60.0), [(100, 1)], defences=8)
    with pytest.raises(UsageError, match="two submissions"):
        simulate(StatedRates(), [(100, 1)], attacks=1, defences=1)


def test_raters_tell_more_together():
    """Raters' and pictures' own levels cancel; what one answer adds does not, and fades with their number."""
    found = dict(simulate_grading(StatedGrades(gap=0.1), (3, 15, 60), 5, rounds=ROUNDS, seed=1))
    assert found[3] < found[15] < found[60]
    ((_, none),) = simulate_grading(StatedGrades(gap=1e-9), (15,), 20, rounds=ROUNDS, seed=1)
    assert none == pytest.approx(0.5, abs=ERROR)


def test_the_command_says_how_many_raters_are_enough(tmp_path):
    """Where people grade, the number of raters that orders neighbours stands below the table of raters."""
    text = (TEMPLATES / "attack_set.yaml").read_text("utf-8").replace("  # grading: {}", "  grading: {}")
    (tmp_path / "contest.yaml").write_text(text, "utf-8")
    words = ["contest", "power", str(tmp_path / "contest.yaml"), "--rounds", "20", "--grade-gap"]
    enough = CliRunner().invoke(app, [*words, "2"])
    assert enough.exit_code == 0, enough.output
    assert "neighbours in order with probability 90%: 3 raters are enough" in enough.stdout
    assert "none of these numbers of raters is enough" in CliRunner().invoke(app, [*words, "0.001"]).stdout


def test_a_format_whose_boards_people_decide_is_not_simulated():
    """An unrestricted contest is refused for that, and not for too few submissions."""
    refused = CliRunner().invoke(app, ["contest", "power", str(TEMPLATES / "unrestricted.yaml")])
    assert refused.exit_code == 2
    assert "no board of the format unrestricted follows from accuracies" in " ".join(refused.stderr.split())


@pytest.mark.slow
def test_the_command_warns_where_a_prize_hangs_on_noise():
    """With pictures as few as the demo's, the first place is luck; the same seed gives the same numbers."""
    words = ["contest", "power", DEMO, "--rounds", "20", "--json"]
    first, second = (CliRunner().invoke(app, words) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert first.stdout == second.stdout
    document = json.loads(first.stdout)
    assert any("hangs on noise" in warning for warning in document["warnings"])
    assert {cost["pictures"] for cost in document["costs"]} >= {100, 1000, document["pictures"]}
    shown = CliRunner().invoke(app, ["contest", "power", DEMO, "--rounds", "20", "--gap", "3"])
    assert "--attacks 8 --defences 8 " in shown.stdout
    assert "--clean 0.9 --attacked 0.5 --gap 3.0 " in " ".join(shown.stdout.split()), (
        "the rates stand above the numbers"
    )
    text = CliRunner().invoke(app, ["contest", "power", DEMO, "--rounds", "20", "--gap", "60"])
    assert text.exit_code == 2
    assert "smaller --gap" in text.stderr
