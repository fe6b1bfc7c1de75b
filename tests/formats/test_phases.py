"""The tournament as a season: who meets whom in each round, who goes on, who stands for a team, who gets a prize."""

from collections.abc import Mapping
from fractions import Fraction

import pytest

from orchestrator.domain.contest_format import Eligibility, RoundOfSeason
from orchestrator.domain.plan import Cell
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Side
from orchestrator.formats.tournament.events import FinalistsPromoted

MEASURES = frozenset({"fgsm_trained", "undefended", "fgsm", "bim", "pgd"})
FLOOR = {"baseline": "undefended", "points": 10}
TIMES = [f"2026-03-0{day}T00:00:00+00:00" for day in range(1, 10)]


def season(table, attacks: Mapping[str, int], losses: Mapping[str, int], **more):
    """Returns an initial round of 100 pictures: each attack's delta on fgsm_trained, each defence's loss, by name."""
    baseline = {None: 90, "fgsm": 60, "bim": 50, "pgd": 50}
    rows = {name: baseline | {a: 90 - delta for a, delta in attacks.items()} for name in ("undefended", "fgsm_trained")}
    rows |= {name: {None: 95, **dict.fromkeys(("fgsm", "bim", "pgd"), 95 - loss)} for name, loss in losses.items()}
    return table(rows, baselines=MEASURES, phase="initial", **more)


def meetings(cells, defence: str) -> list[str | None]:
    """Returns whom a defence meets; None is clean pictures."""
    return [cell.attack for cell in cells if cell.defence == defence]


ROSTER = {
    "undefended": dict.fromkeys((None, "noop", "a", "b"), 50),
    "d": dict.fromkeys((None, "noop", "a", "b"), 50),
    "e": dict.fromkeys((None, "noop", "a", "b"), 50),
}
"""Two attacks and two defences of teams, and a baseline of each side."""


def in_round(name: str, *finalists: str) -> RoundOfSeason:
    """Returns a round of a season in which these were promoted."""
    played = Season()
    if finalists:
        event = FinalistsPromoted(actor="desk", task="digits", attacks=list(finalists), defences=[])
        played.apply(event, "2026-03-01T00:00:00+00:00")
    return RoundOfSeason(name, "digits", played)


def promotion(contest_format, observed) -> FinalistsPromoted:
    """Returns who goes on."""
    return contest_format.round_outcome(observed, actor="desk", task="digits")


def test_a_season_has_two_rounds(tournament) -> None:
    """The final round comes after the initial one, and is blocked until somebody was promoted on its task."""
    rules = tournament()
    rounds = rules.rounds(Season(), "digits")
    assert [(each.name, bool(each.blocked), each.reveals_labels) for each in rounds] == [
        ("initial", False, False),
        ("final", True, True),
    ]
    promoted = in_round("final", "a").season
    assert not any(each.blocked for each in rules.rounds(promoted, "digits"))
    assert rules.rounds(promoted, "faint")[1].blocked == "nobody was promoted on faint yet"


def test_the_initial_round_meets_baselines(tournament, table) -> None:
    """Everybody meets clean pictures and the organizers' baselines of the other side, and no other (A11, A12)."""
    roster = table(ROSTER, baselines=frozenset({"undefended", "noop"})).roster()
    cells = tournament().schedule(roster, in_round("initial"))
    assert meetings(cells, "undefended") == [None, "noop", "a", "b"]
    assert meetings(cells, "d") == meetings(cells, "e") == [None, "noop"]


def test_the_final_round_meets_everybody(tournament, table) -> None:
    """With `final: everybody` each attack meets each defence, promoted or not, baselines included (A3)."""
    roster = table(ROSTER, baselines=frozenset({"undefended", "noop"})).roster()
    assert tournament().schedule(roster, in_round("final", "a", "d")) == tournament().schedule(roster)
    assert len(tournament().schedule(roster)) == 3 * 4


def test_finalists_may_be_the_only_ones(tournament, table) -> None:
    """With `final: finalists` the final is between finalists and baselines; the others meet nobody."""
    roster = table(ROSTER, baselines=frozenset({"undefended", "noop"})).roster()
    cells = tournament(final="finalists").schedule(roster, in_round("final", "a", "d"))
    assert cells == tuple(Cell(defence, attack) for defence in ("undefended", "d") for attack in (None, "noop", "a"))
    assert tournament(final="finalists").schedule(roster, in_round("initial")) == tournament().schedule(
        roster, in_round("initial")
    )


def test_each_round_has_its_boards(tournament, table) -> None:
    """The initial round has the boards of A11 and A12, the final one those of A13, a round by itself all four."""
    shown = {}
    for phase in ("initial", "final", ""):
        played = season(table, {"a": 10}, {"d": 10})
        played.phase = phase
        shown[phase] = [board.name for board in tournament().leaderboards(played.records())]
    assert shown["initial"] == ["attacks_initial", "defences_initial"]
    assert shown["final"] == ["attacks", "defences"]
    assert shown[""] == shown["final"] + shown["initial"]


def test_the_first_five_of_each_side_go_on(tournament, table) -> None:
    """Of seven a side, the five largest deltas and the five smallest losses are promoted, best first (A11, A12)."""
    attacks = {f"a{n}": n for n in range(7)}
    losses = {f"d{n}": n for n in range(7)}
    promoted = promotion(tournament(), season(table, attacks, losses).records())
    assert promoted.attacks == ["a6", "a5", "a4", "a3", "a2"]
    assert promoted.defences == ["d0", "d1", "d2", "d3", "d4"]
    assert promoted.superseded == {}


def test_all_who_share_the_fifth_place_go_on(tournament, table) -> None:
    """A tie across places 5 and 6 that no violation and no time breaks takes both; the seventh stays (A16)."""
    attacks = {"a": 60, "b": 50, "c": 40, "e": 30, "tie1": 20, "tie2": 20, "late": 10}
    losses = {"d": 1, "f": 2, "g": 3, "h": 4, "tie3": 5, "tie4": 5, "tie5": 5, "last": 6}
    promoted = promotion(tournament(), season(table, attacks, losses).records())
    assert promoted.attacks == ["a", "b", "c", "e", "tie1", "tie2"]
    assert promoted.defences == ["d", "f", "g", "h", "tie3", "tie4", "tie5"]


def test_a_tie_inside_the_five_takes_nobody_more(tournament, table) -> None:
    """Two at place 4 fill places 4 and 5: the next has rank 6 (A16)."""
    attacks = {"a": 60, "b": 50, "c": 40, "tie1": 20, "tie2": 20, "next": 10}
    promoted = promotion(tournament(), season(table, attacks, {"d": 1}).records())
    assert promoted.attacks == ["a", "b", "c", "tie1", "tie2"]


def test_violations_and_time_decide_the_fifth_place(tournament, table) -> None:
    """Of equal scores the one with fewer violations goes on, then the earlier one; the other stays at home (A16)."""
    attacks = {"a": 60, "b": 50, "c": 40, "e": 30, "early": 20, "late": 20, "beyond": 20}
    times = {"early": TIMES[1], "late": TIMES[2], "beyond": TIMES[0]}
    played = season(table, attacks, {"d": 1}, submitted=times, violations={"beyond": 1})
    assert promotion(tournament(), played.records()).attacks == ["a", "b", "c", "e", "early"]
    board = {row.submission: row.rank for row in tournament().leaderboards(played.records())[0].rows}
    assert (board["early"], board["late"], board["beyond"]) == (5, 6, 7)


def test_faults_decide_between_equal_defences(tournament, table) -> None:
    """Of equal losses the defence that failed to classify fewer pictures comes first (A7, A16)."""
    played = season(table, {"a": 1}, {"d": 5, "e": 5}, faults={("d", "fgsm"): 2})
    assert promotion(tournament(finalists=1), played.records()).defences == ["e"]


def test_who_is_not_ranked_is_not_promoted(tournament, table) -> None:
    """Baselines, a found cheater, one beyond the budget and one below the floor leave their places to others."""
    attacks, losses = {"over": 80, "a": 40, "b": 30}, {"cheater": 0, "d": 10, "e": 20}
    played = season(table, attacks, losses, findings=("cheater",), violations={"over": 3})
    played.defences["constant"] = dict.fromkeys((None, "fgsm", "bim", "pgd"), 10)
    rules = tournament(finalists=2, on_violation="disqualify", clean_floor=FLOOR)
    promoted = promotion(rules, played.records())
    assert promoted.attacks == ["a", "b"]
    assert promoted.defences == ["d", "e"]


@pytest.mark.parametrize(("clean", "wrong"), [(10, "a constant"), (63, "errs on 30 % of clean pictures")])
def test_a_defence_below_the_floor_cannot_win(tournament, table, clean, wrong) -> None:
    """A constant classifier, and one that gives up 30 % of the clean pictures, lose nothing and rank nowhere (A17)."""
    played = season(table, {"a": 40}, {"d": 30})
    played.defences["sly"] = dict.fromkeys((None, "fgsm", "bim", "pgd"), clean)
    rows = {row.submission: row for row in tournament(clean_floor=FLOOR).leaderboards(played.records())[1].rows}
    assert rows["d"].rank == 1
    assert rows["sly"].rank is None, wrong
    assert rows["sly"].score == 0
    assert rows["sly"].reason == f"clean accuracy {clean}.0% is below the floor of 80.0% (A17)"


def test_the_best_of_a_team_stands(played, table) -> None:
    """Of three tries the best by initial score is ranked; the others are shown, and say who stands for them (A4)."""
    attacks = {"one": 10, "two": 30, "three": 20, "other": 25}
    teams = dict.fromkeys(("one", "two", "three"), "Three Tries")
    rows = played(season(table, attacks, {"d": 1}, teams=teams))["attacks_initial"]
    assert {name: rows[name].rank for name in attacks} == {"two": 1, "other": 2, "three": None, "one": None}
    assert rows["one"].reason == rows["three"].reason == "two stands for this team (A4)"
    assert rows["one"].score == 10


def test_the_best_defence_of_a_team_is_the_smallest_loss(played, table) -> None:
    """For defences the best is the least; a disqualified one does not stand for its team (A4)."""
    teams = dict.fromkeys(("cheat", "weak", "good"), "Three Tries")
    played_round = season(table, {"a": 1}, {"cheat": 0, "good": 10, "weak": 20}, teams=teams, findings=("cheat",))
    rows = played(played_round)["defences_initial"]
    assert {name: row.rank for name, row in rows.items() if row.rank} == {"good": 1}
    assert rows["weak"].reason == "good stands for this team (A4)"
    assert rows["cheat"].reason.startswith("disqualified: finding")


def test_best_of_a_team_is_within_a_side(played, table) -> None:
    """A team's attack does not stand for its defence (A4)."""
    rows = played(season(table, {"a": 1}, {"d": 1}, teams={"a": "Both", "d": "Both"}))
    assert (rows["attacks_initial"]["a"].rank, rows["defences_initial"]["d"].rank) == (1, 1)


def test_places_go_to_teams(tournament, table) -> None:
    """A team's second try takes no place in the final: the next team's goes on, and the ledger learns why (A4)."""
    attacks = {"one": 50, "two": 40, "other": 30, "third": 20}
    played = season(table, attacks, {"d": 1}, teams={"one": "Two Tries", "two": "Two Tries"})
    promoted = promotion(tournament(finalists=2), played.records())
    assert promoted.attacks == ["one", "other"]
    assert promoted.superseded == {"two": "one stands for this team (A4)"}


def test_prizes_skip_who_may_get_none(played, table) -> None:
    """A member of the organizing institution is ranked, and the places that win go to the next ones (A5)."""
    standings = {"house": Eligibility(no_prize="Otto: of the organizing institution (A5)")}
    rows = played(season(table, {"a": 40, "house": 30, "b": 20}, {"d": 1}, standings=standings))["attacks_initial"]
    assert [(name, rows[name].rank, rows[name].prize_rank) for name in ("a", "house", "b")] == [
        ("a", 1, 1),
        ("house", 2, None),
        ("b", 3, 2),
    ]
    assert rows["house"].no_prize == "Otto: of the organizing institution (A5)"


def test_a_shared_rank_is_a_shared_place(played, table) -> None:
    """Who ties with an ineligible one gets the whole place; two eligible ones share theirs (A5, A16)."""
    standings = {"house": Eligibility(no_prize="organizers")}
    attacks = {"a": 40, "house": 40, "b": 40, "c": 30}
    rows = played(season(table, attacks, {"d": 1}, standings=standings))["attacks_initial"]
    assert {name: (rows[name].rank, rows[name].prize_rank) for name in attacks} == {
        "a": (1, 1),
        "b": (1, 1),
        "house": (1, None),
        "c": (4, 3),
    }


FINAL = {
    "d": {None: 90, "a": 60, "b": 80, "out": 0},
    "e": {None: 80, "a": 60, "b": 40, "out": 0},
    "home": {None: 90, "a": 0, "b": 0, "out": 0},
}


def stays(reason: str = "not among the finalists (A11, A12)", *, counts: bool = False) -> Eligibility:
    """Returns what a season says of a submission that is shown only."""
    return Eligibility(reason, counts_in_means=counts)


def test_the_means_of_the_final_run_over_finalists(played, table) -> None:
    """Who was not promoted has a score and no rank, and nobody is measured on it (A13)."""
    rows = played(table(FINAL, phase="final", standings={"home": stays(), "out": stays()}))
    assert {name: (row.rank, row.score) for name, row in rows["attacks"].items()} == {
        "a": (1, 25),
        "b": (1, 25),
        "out": (None, 85),
    }
    assert {name: (row.rank, row.score) for name, row in rows["defences"].items()} == {
        "d": (1, 20),
        "e": (2, 30),
        "home": (None, 90),
    }
    assert rows["defences"]["home"].reason == "not among the finalists (A11, A12)"


def test_an_unreleased_finalist_is_shown_and_measured_on(played, table) -> None:
    """Without released source a finalist has no rank, but the other side's means still run over it (A6, A13)."""
    closed = stays("licence missing (A6)", counts=True)
    rows = played(table(FINAL, phase="final", standings={"home": stays(), "out": stays(), "e": closed}))
    assert (rows["defences"]["e"].rank, rows["defences"]["e"].reason) == (None, "licence missing (A6)")
    assert rows["defences"]["d"].rank == 1
    assert rows["attacks"]["b"].score == 25


@pytest.mark.parametrize("reason", ["withdrawn: a bug", "disqualified: two people, one team"])
def test_who_left_is_measured_on_no_more(played, table, reason) -> None:
    """A withdrawn or disqualified finalist keeps its row and leaves every mean (A13)."""
    left = {"home": stays(), "out": stays(), "e": stays(reason)}
    rows = played(table(FINAL, phase="final", standings=left))
    assert (rows["defences"]["e"].rank, rows["defences"]["e"].reason) == (None, reason)
    assert {name: rows["attacks"][name].score for name in ("a", "b")} == {"a": 30, "b": 10}


def test_who_left_is_scored_on_whom_it_met(played, table) -> None:
    """A withdrawn finalist keeps the mean over the attacks that it met; one that is still there waits for the rest."""
    rows = {"d": FINAL["d"], "e": {name: held for name, held in FINAL["e"].items() if name != "b"}}
    here = {"out": stays()}
    assert played(table(rows, phase="final", standings=here))["defences"]["e"].score is None
    left = here | {"e": Eligibility("withdrawn: a bug", counts_in_means=False, has_left=True)}
    shown = played(table(rows, phase="final", standings=left))
    assert (shown["defences"]["e"].rank, shown["defences"]["e"].score) == (None, 20)
    assert (shown["attacks"]["a"].score, shown["attacks"]["b"].score) == (30, 10)


def test_finalists_only_leave_the_others_without_a_score(tournament, table) -> None:
    """Under `final: finalists` who stayed at home has no score, and still says why."""
    rows = {"d": FINAL["d"] | {}, "home": {}}
    del rows["d"]["out"]
    played = table(rows, phase="final", standings={"home": stays()})
    boards = tournament(final="finalists").leaderboards(played.records())
    shown = {row.submission: (row.rank, row.score, row.reason) for row in boards[1].rows}
    assert shown == {"d": (1, 20, ""), "home": (None, None, "not among the finalists (A11, A12)")}


def test_a_score_says_what_it_is_made_of(played, table) -> None:
    """The terms of a weighted loss are the clean cell once and each attacked cell by its weight (A12, X5)."""
    row = played(season(table, {"a": 10}, {"d": 10}))["defences_initial"]["d"]
    assert row.score_terms == {
        Cell("d"): 1,
        Cell("d", "fgsm"): Fraction(-1, 5),
        Cell("d", "bim"): Fraction(-2, 5),
        Cell("d", "pgd"): Fraction(-2, 5),
    }


def test_the_limits_are_in_the_rules(tournament) -> None:
    """Three submissions a team, unless the contest file says otherwise (A4); a team has to be known."""
    assert tournament().submissions_per_team() == 3
    assert tournament(submissions_per_team=5).submissions_per_team() == 5
    [problem] = tournament().entry_problems(Season(), "Nobody", "digits", Side.ATTACK)
    assert "there is no team 'Nobody'" in problem.what


@pytest.mark.parametrize("phase", ["initial", "final"])
def test_a_season_needs_what_it_measures_with(tournament, table, phase) -> None:
    """Without the classifier or an attack of the initial round nobody could be promoted: that is an objection."""
    roster = season(table, {"a": 1}, {"d": 1}).roster()
    assert tournament().roster_problems(roster, phase) == []
    poor = type(roster)(tuple(s for s in roster if s.id not in {"fgsm_trained", "pgd"}))
    found = tournament().roster_problems(poor, phase)
    expected = ["rules.initial.classifier", "rules.initial.weights"] if phase == "initial" else []
    assert [problem.place for problem in found] == expected
    assert tournament().roster_problems(poor) == []
