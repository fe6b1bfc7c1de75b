"""The tournament's boards, with the numbers worked out by hand."""

from fractions import Fraction

import pytest
from pydantic import ValidationError

from orchestrator.domain.contest_format import Observations
from orchestrator.domain.plan import Cell
from orchestrator.domain.submissions import Roster, Side
from orchestrator.domain.tasks import Budget, Norm, Task

FLOOR = {"baseline": "undefended", "points": 10}
# Deltas: a1 takes 30 of d1 and 10 of d2, a2 takes 15 and 40.
SQUARE = {"d1": {None: 90, "a1": 60, "a2": 75}, "d2": {None: 80, "a1": 70, "a2": 40}}


def scores(rows):
    """Returns (rank, score) by submission."""
    return {name: (row.rank, row.score) for name, row in rows.items()}


def test_every_attack_meets_every_defence(tournament, table):
    """Cells are clean pictures and every attack for every defence, baselines included (A3)."""
    roster = table(SQUARE, baselines=frozenset({"a1", "d2"})).roster()
    assert tournament().schedule(roster) == tuple(Cell(d, a) for d in ("d1", "d2") for a in (None, "a1", "a2"))


def test_the_documents_example(played, table):
    """From 80 % to 60 % is a delta of 20 (A11)."""
    boards = played(table({"fgsm_trained": {None: 80, "a": 60}}, baselines=frozenset({"fgsm_trained"})))
    assert scores(boards["attacks_initial"]) == {"a": (1, 20)}


def test_the_final_round_is_means_over_the_other_side(played, table):
    """Attacks: (30+10)/2 and (15+40)/2, the larger wins; defences: (30+15)/2 and (10+40)/2, the smaller wins (A13)."""
    boards = played(table(SQUARE))
    assert scores(boards["attacks"]) == {"a1": (2, 20), "a2": (1, Fraction(55, 2))}
    assert scores(boards["defences"]) == {"d1": (1, Fraction(45, 2)), "d2": (2, 25)}
    assert list(boards["attacks"]) == ["a2", "a1"]


@pytest.mark.parametrize("held", [0, 40, 60])
def test_a_cell_that_was_not_played_whole_is_the_worst_case(played, table, held):
    """The defence holds nothing there, whatever came first in the secret order; no attack is measured on it (A7)."""
    rows = {"d1": {None: 90, "a1": held, "a2": 75}, "d2": SQUARE["d2"]}
    boards = played(table(rows, not_played={("d1", "a1"): 1}))
    assert scores(boards["attacks"]) == {"a1": (2, 10), "a2": (1, 40)}
    assert scores(boards["defences"]) == {"d1": (2, Fraction(90 + 15, 2)), "d2": (1, 25)}


def test_clean_pictures_that_were_not_played_leave_a_defence_unranked(played, table):
    """Else who stalls on clean pictures would lose little on attacked ones (A7)."""
    rows = {"d1": {None: 0, "a1": 0, "a2": 0}, "d2": SQUARE["d2"]}
    boards = played(table(rows, not_played={("d1", None): 3}))
    assert scores(boards["attacks"]) == {"a1": (2, 10), "a2": (1, 40)}
    assert boards["defences"]["d1"].rank is None
    assert boards["defences"]["d1"].reason == "3 of 100 clean pictures were not played: its faults took too long (A7)"


@pytest.mark.parametrize(("attack", "measured"), [("stalling", ["a", "fgsm"]), (None, [])], ids=["attacked", "clean"])
def test_nothing_that_was_not_played_is_credited_in_the_initial_round(tournament, table, attack, measured):
    """An attack at whose pictures the organizers' classifier hangs gains nothing and is not promoted (A7, A11)."""
    rows = {"fgsm_trained": {None: 80, "fgsm": 60, "a": 70, "stalling": 0}}
    not_played = {("fgsm_trained", attack): 1}
    baselines = frozenset({"fgsm_trained", "fgsm"})
    found = table(rows, baselines=baselines, phase="initial", not_played=not_played).records()
    outcome = tournament(initial={"weights": {"fgsm": 1}}).round_outcome(found, actor="desk", task="digits")
    (board, _) = tournament(initial={"weights": {"fgsm": 1}}).leaderboards(found)
    assert sorted(row.submission for row in board.rows if row.score is not None) == measured
    reasons = {row.submission: row.reason for row in board.rows}
    assert reasons["stalling"] == "not every picture of fgsm_trained was played: its faults took too long (A7)"
    assert outcome.attacks == [name for name in measured if name == "a"]


def test_a_baselines_score_credits_nothing_that_was_not_played(played, table):
    """Who is not ranked is shown without the cell too: the baseline takes 40 of d2, and none of d1 (A7)."""
    rows = {"d1": {None: 90, "a": 60, "pgd": 0}, "d2": {None: 80, "a": 70, "pgd": 40}}
    boards = played(table(rows, baselines=frozenset({"pgd"}), not_played={("d1", "pgd"): 9}))
    assert scores(boards["attacks"]) == {"a": (1, 20), "pgd": (None, 40)}


def test_where_no_defence_played_everything_no_attack_has_a_score(played, table):
    """Its pictures will not be played: the reason does not say "yet" (A7)."""
    boards = played(table({"d": {None: 90, "a": 60, "b": 0}}, not_played={("d", "b"): 1}))
    reason = "of no defence every picture was played, so there is nothing to score against (A7)"
    assert [(row.score, row.reason) for row in boards["attacks"].values()] == [(None, reason)] * 2


def test_means_are_exact(played, table):
    """A mean of thirds is a third, and never a rounded float (A13)."""
    rows = {"d1": {None: 3, "a": 2}, "d2": {None: 3, "a": 3}, "d3": {None: 3, "a": 3}}
    assert played(table(rows, total=3))["attacks"]["a"].score == Fraction(100, 9)


def test_baselines_are_shown_and_take_no_part(played, table):
    """Baselines have scores but no rank, and the means run over the ordinary submissions only (A3, A13)."""
    base = {"noise": 90, "a1": 60, "a2": 75}
    rows = {
        "d1": {None: 90, **base},
        "d2": {None: 80, "noise": 70, "a1": 70, "a2": 40},
        "undefended": {None: 100, "noise": 0, "a1": 0, "a2": 100},
    }
    boards = played(table(rows, baselines=frozenset({"noise", "undefended"})))
    assert scores(boards["attacks"]) == {"a1": (2, 20), "a2": (1, Fraction(55, 2)), "noise": (None, 5)}
    assert scores(boards["defences"]) == {"d1": (1, Fraction(45, 2)), "d2": (2, 25), "undefended": (None, 50)}
    assert boards["attacks"]["noise"].reason == boards["defences"]["undefended"].reason == "baseline"


def test_a_disqualified_defence_leaves_the_means(played, table):
    """A finding takes d2 out of the ranking, and a1 and a2 are then measured on d1 alone (A9, A10, A13)."""
    boards = played(table(SQUARE, findings=("d2",)))
    assert scores(boards["attacks"]) == {"a1": (1, 30), "a2": (2, 15)}
    assert scores(boards["defences"]) == {"d1": (1, Fraction(45, 2)), "d2": (None, 25)}
    assert boards["defences"]["d2"].reason == "disqualified: finding f-d2 (A9, A10)"


def test_zero_counts_every_attacked_picture_as_fooled(played, table):
    """With `on_finding: zero` d2 keeps its clean 80, loses all of it to every attack, and stays in the means."""
    boards = played(table(SQUARE, findings=("d2",)), on_finding="zero")
    assert scores(boards["defences"]) == {"d1": (1, Fraction(45, 2)), "d2": (2, 80)}
    assert scores(boards["attacks"]) == {"a1": (1, 55), "a2": (2, Fraction(95, 2))}


def test_zero_reaches_the_initial_round(played, table):
    """A found defence loses its clean accuracy in the weighted loss too: 0.2 x 80 + 0.8 x 80 (A12)."""
    weights = {"weights": {"fgsm": 0.2, "bim": 0.8}}
    found = table({"d": {None: 80, "fgsm": 80, "bim": 80}}, baselines=frozenset({"fgsm", "bim"}), findings=("d",))
    assert played(found, on_finding="zero", initial=weights)["defences_initial"]["d"].score == 80
    assert played(found, on_finding="flag", initial=weights)["defences_initial"]["d"].score == 0


def test_flag_changes_no_number(played, table):
    """With `on_finding: flag` the boards are those without a finding."""
    assert played(table(SQUARE, findings=("d2",)), on_finding="flag") == played(table(SQUARE))


def test_violations_disqualify_only_where_the_rules_say_so(played, table):
    """Under `disqualify` one candidate beyond the budget ends an attack and takes it out of the means (A14)."""
    played_round = table(SQUARE, violations={"a2": 1})
    strict = played(played_round, on_violation="disqualify")
    assert strict["attacks"]["a2"].reason == "disqualified: 1 candidates beyond the budget (A14)"
    assert scores(strict["attacks"]) == {"a1": (1, 20), "a2": (None, Fraction(55, 2))}
    assert scores(strict["defences"]) == {"d1": (2, 30), "d2": (1, 10)}
    for rule in ("forfeit", "clip"):
        lenient = played(played_round, on_violation=rule)
        assert (lenient["attacks"]["a2"].rank, lenient["attacks"]["a2"].values["violations"].number) == (1, 1)


def test_ties_between_attacks_go_to_fewer_violations(played, table):
    """The same delta ranks by violations, then by the earlier submission, and what remains is a tie (A16)."""
    rows = {"d": {None: 90, "a": 60, "b": 60, "c": 60, "e": 60}}
    times = {"b": "2026-03-02T00:00:00+00:00", "c": "2026-03-01T00:00:00+00:00", "e": "2026-03-02T00:00:00+00:00"}
    boards = played(table(rows, violations={"a": 1}, submitted={"a": "2026-01-01T00:00:00+00:00", **times}))
    assert {name: row.rank for name, row in boards["attacks"].items()} == {"c": 1, "b": 2, "e": 2, "a": 4}


def test_ties_between_defences_go_to_fewer_faults(played, table):
    """Pictures that a defence failed to classify are its violations, counted over all its cells (A7, A16)."""
    rows = {"d": {None: 90, "a": 80}, "e": {None: 70, "a": 60}}
    boards = played(table(rows, faults={("d", None): 2, ("d", "a"): 3}))
    assert {name: (row.rank, row.values["violations"].number) for name, row in boards["defences"].items()} == {
        "e": (1, 0),
        "d": (2, 5),
    }


def test_weights_of_the_initial_round(played, table):
    """Deltas of 10, 20 and 30 make 0.2 x 10 + 0.4 x 20 + 0.4 x 30 = 22, exactly; the smaller loss wins (A12)."""
    rows = {
        "d": {None: 90, "fgsm": 80, "bim": 70, "pgd": 60},
        "e": {None: 90, "fgsm": 50, "bim": 75, "pgd": 75},
    }
    boards = played(table(rows, baselines=frozenset({"fgsm", "bim", "pgd"})))
    assert scores(boards["defences_initial"]) == {"d": (2, 22), "e": (1, 20)}


def test_weights_are_decimals(played, table):
    """A weight written 0.1 in the file is one tenth, not the nearest float."""
    rows = {"d": {None: 100, "fgsm": 0}}
    boards = played(table(rows, baselines=frozenset({"fgsm"})), initial={"weights": {"fgsm": 0.1}})
    assert boards["defences_initial"]["d"].score == 10


def test_the_initial_round_needs_its_baselines(played, table):
    """The initial boards are there only where the classifier, and all the attacks, play (A11, A12)."""
    final = {"attacks", "defences"}
    rows = {"fgsm_trained": {None: 80, "fgsm": 60, "bim": 60}}
    assert set(played(table(rows, baselines=frozenset({"fgsm", "bim"})))) == final
    assert set(played(table(rows, baselines=frozenset({"fgsm_trained"})))) == final | {"attacks_initial"}
    whole = {"fgsm_trained": {None: 80, "fgsm": 60, "bim": 60, "pgd": 60}}
    everybody = frozenset({"fgsm", "bim", "pgd"})
    assert set(played(table(whole, baselines=everybody))) == final | {"defences_initial"}


def test_a_teams_entry_is_no_baseline(played, table):
    """A team that names its entry like a baseline measures nobody by it (A11, A12)."""
    rows = {"fgsm_trained": {None: 80, "fgsm": 60, "bim": 60, "pgd": 60}}
    assert set(played(table(rows))) == {"attacks", "defences"}


@pytest.mark.parametrize(("clean", "ranked"), [(85, True), (84, False)])
def test_the_clean_floor_is_part_of_the_ranking(played, table, clean, ranked):
    """With an undefended baseline at 95, a defence at 85 ranks and one at 84 does not (A17)."""
    rows = {"undefended": {None: 95, "a": 0}, "d": {None: clean, "a": clean}}
    row = played(table(rows, baselines=frozenset({"undefended"})), clean_floor=FLOOR)["defences"]["d"]
    assert (row.rank, row.score) == (1 if ranked else None, 0)
    assert row.reason == ("" if ranked else "clean accuracy 84.0% is below the floor of 85.0% (A17)")


def test_the_clean_floor_is_exact(played, table):
    """A third minus 10 points is 7/30: a defence of exactly that ranks, though no float of them agrees (A17)."""
    rows = {"undefended": {None: 10, "a": 0}, "d": {None: 7, "a": 7}}
    found = table(rows, baselines=frozenset({"undefended"}), total=30)
    assert played(found, clean_floor=FLOOR)["defences"]["d"].rank == 1


def test_who_is_barely_below_the_floor_sees_by_how_much(played, table):
    """One picture of 10,000 below the floor is not `87.5% is below the floor of 87.5%` (A17)."""
    rows = {"undefended": {None: 9752, "a": 0}, "d": {None: 8751, "a": 8751}}
    found = table(rows, baselines=frozenset({"undefended"}), total=10_000)
    reason = played(found, clean_floor=FLOOR)["defences"]["d"].reason
    assert reason == "clean accuracy 87.51% is below the floor of 87.52% (A17)"


def test_a_constant_classifier_does_not_win(played, table):
    """10 % clean and 10 % attacked is the smallest delta, but below the floor and out of the attacks' means (A17)."""
    rows = {
        "undefended": {None: 90, "a": 0},
        "constant": {None: 10, "a": 10},
        "honest": {None: 88, "a": 48},
    }
    boards = played(table(rows, baselines=frozenset({"undefended"})), clean_floor=FLOOR)
    assert scores(boards["defences"]) == {"honest": (1, 40), "constant": (None, 0), "undefended": (None, 90)}
    assert boards["attacks"]["a"].score == 40


def test_without_a_floor_everybody_ranks(played, table):
    """`clean_floor: null` switches A17 off."""
    rows = {"undefended": {None: 90, "a": 0}, "constant": {None: 10, "a": 10}}
    assert played(table(rows, baselines=frozenset({"undefended"})))["defences"]["constant"].rank == 1


def test_an_attack_that_delivers_nothing_is_no_measure(played, table):
    """It is shown unranked, and a defence that misreads clean pictures wins nothing by it (A8, A13)."""
    rows = {"sharp": {None: 95, "a": 60, "crashed": 100}, "dull": {None: 86, "a": 50, "crashed": 100}}
    found = table(rows, forfeits={"crashed": 100})
    boards = played(found)
    assert scores(boards["defences"]) == {"sharp": (1, 35), "dull": (2, 36)}
    assert boards["attacks"]["crashed"].reason == "delivered no picture that counts (A8)"
    assert scores(boards["attacks"]) == {"a": (1, Fraction(71, 2)), "crashed": (None, Fraction(-19, 2))}
    asked = played(found, on_missing="ask")
    assert scores(asked["attacks"])["crashed"] == (2, Fraction(-19, 2))


def test_an_attack_that_delivers_something_is_measured(played, table):
    """One picture that counts is an attack: what it did not deliver was held (A8)."""
    boards = played(table({"d": {None: 90, "noop": 90, "late": 99}}, forfeits={"late": 99}))
    assert scores(boards["attacks"]) == {"noop": (1, 0), "late": (2, -9)}


def test_an_attack_that_fails_against_one_defence_is_measured(played, table):
    """An attack that queries delivers for each defence anew: a defence at which it fails neither unranks it nor gains.

    d1 loses 30 and, where nothing was delivered, 0: not the 10 that it misreads of its clean pictures (A8, A13).
    """
    rows = {"d1": {None: 90, "a": 60, "silenced": 100}, "d2": {None: 80, "a": 70, "silenced": 40}}
    boards = played(table(rows, forfeits={("d1", "silenced"): 100}))
    assert scores(boards["attacks"]) == {"a": (1, 20), "silenced": (2, 15)}
    assert scores(boards["defences"]) == {"d1": (1, 15), "d2": (2, 25)}
    assert scores(played(table(rows, forfeits={("d1", "silenced"): 99}))["defences"])["d1"] == (1, 10)
    replaced = played(table(rows, forfeits={("d1", "silenced"): 100}), on_missing="clean")
    assert scores(replaced["defences"])["d1"] == (1, 10)
    nothing = played(table(rows, forfeits={"silenced": 100}))
    assert scores(nothing["attacks"])["silenced"] == (None, 15)


def test_a_defence_gains_by_no_attack_that_delivers_nothing_against_it(played, table):
    """Its own faults at queries still count; an organizers' attack in the initial round is no exception (A7, A8)."""
    rows = {"d1": {None: 90, "a": 100}, "d2": {None: 80, "a": 70}}
    assert scores(played(table(rows, forfeits={("d1", "a"): 100}))["defences"]) == {"d1": (1, 0), "d2": (2, 10)}
    faulted = {"d1": {None: 90, "a": 85}, "d2": {None: 80, "a": 70}}
    assert scores(played(table(faulted, forfeits={("d1", "a"): 100}))["defences"])["d1"] == (1, 5)
    weights = {"weights": {"a": 1}}
    initial = table({"d1": rows["d1"]}, baselines=frozenset({"a"}), forfeits={("d1", "a"): 100})
    assert played(initial, initial=weights)["defences_initial"]["d1"].score == 0
    found = table({"d1": rows["d1"], "d2": rows["d2"]}, forfeits={("d1", "a"): 100}, findings=("d1",))
    assert scores(played(found, on_finding="zero")["defences"])["d1"] == (2, 90)


def test_an_attack_that_delivers_nothing_is_not_promoted(tournament, table):
    """A place that nobody else wants stays empty (A8, A11)."""
    rows = {"fgsm_trained": {None: 80, "fgsm": 60, "bim": 60, "pgd": 60, "a": 79, "crashed": 100}}
    baselines = frozenset({"fgsm_trained", "fgsm", "bim", "pgd"})
    found = table(rows, baselines=baselines, phase="initial", forfeits={"crashed": 100})
    outcome = tournament().round_outcome(found.records(), actor="desk", task="digits")
    assert outcome.attacks == ["a"]


@pytest.mark.parametrize("given", [{}, {"crafted_on": "surrogate"}])
def test_by_default_the_initial_rounds_attacks_are_crafted_on_the_surrogate(tournament, given):
    """They are baselines that somebody lists; no defence has to give gradients, and results say so (A12)."""
    contest_format = tournament(initial=given)
    assert contest_format.rules.model_dump(mode="json")["initial"]["crafted_on"] == "surrogate"
    assert contest_format.organizer_attacks() == ()
    assert not contest_format.play_rules().needs_gradients


def test_attacks_on_the_defence_itself_are_the_formats_own(tournament):
    """Then every defence has to give gradients: one mode for all (A12)."""
    contest_format = tournament(initial={"crafted_on": "self"})
    assert [attack.name for attack in contest_format.organizer_attacks()] == ["fgsm", "bim", "pgd"]
    assert contest_format.play_rules().needs_gradients


def test_the_board_says_on_what_the_attacks_were_crafted(tournament, table):
    """Only where it is the defence itself: else the attacks are baselines like any (A12)."""
    rows = {
        "fgsm_trained": {None: 80, "fgsm": 60, "bim": 60, "pgd": 60},
        "d": {None: 90, "fgsm": 70, "bim": 60, "pgd": 50},
    }
    found = table(rows, baselines=frozenset({"fgsm_trained", "fgsm", "bim", "pgd"}), phase="initial").records()
    measures = {
        mode: next(
            b for b in tournament(initial={"crafted_on": mode}).leaderboards(found) if b.name == "defences_initial"
        ).measure
        for mode in ("surrogate", "self")
    }
    assert measures["self"] == measures["surrogate"] + ", crafted on each defence itself"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"crafted_on": "both"}, "surrogate"),
        ({"crafted_on": "self", "weights": {"pgd": 0.5, "cw": 0.5}}, "weights are of fgsm, bim, pgd, not of cw"),
    ],
    ids=["mode", "weights"],
)
def test_what_nobody_crafts_is_refused_with_the_reason(tournament, given, said):
    """The format has three attacks of its own (A12)."""
    with pytest.raises(ValidationError, match=said):
        tournament(initial=given)


@pytest.mark.parametrize(
    ("mode", "budget", "fits"),
    [
        ("self", Budget(Norm.LINF, Fraction(8)), True),
        ("self", Budget(Norm.LINF, Fraction(1, 2)), False),
        ("self", Budget(Norm.L2, Fraction(100)), False),
        ("surrogate", Budget(Norm.L2, Fraction(100)), True),
    ],
    ids=["linf", "less-than-a-step", "l2", "surrogate-l2"],
)
def test_attacks_on_the_defence_itself_need_a_budget_that_they_can_use(tournament, mode, budget, fits):
    """FGSM, BIM and PGD move within the Linf ball, in whole steps of a byte (A12, A14)."""
    task = Task(name="digits", classes=("a", "b"), shape=(1, 2, 2), count=1, digest="d", budget=budget)
    assert (tournament(initial={"crafted_on": mode}).task_problems(task) == []) is fits


def test_the_clean_accuracy_of_each_defence_is_its_own_basis(played, table):
    """The same attacked accuracy is a smaller decrease from a lower start (A13)."""
    boards = played(table({"d": {None: 90, "a": 50}, "e": {None: 60, "a": 50}}))
    assert scores(boards["defences"]) == {"e": (1, 10), "d": (2, 40)}


def test_a_cell_that_is_not_played_leaves_its_rows_open(played, table):
    """Who waits for a cell has no score and no rank; the others have theirs."""
    rows = {"d1": SQUARE["d1"], "d2": {None: 80, "a1": 70}}
    boards = played(table(rows))
    assert scores(boards["attacks"]) == {"a1": (1, 20), "a2": (None, None)}
    assert scores(boards["defences"]) == {"d1": (1, Fraction(45, 2)), "d2": (None, None)}
    waits = "not every picture that its score is made of is played yet"
    assert boards["attacks"]["a2"].reason == boards["defences"]["d2"].reason == waits


def test_nothing_is_promised_that_will_not_come(played, table):
    """Where nobody of the other side counts, a score will not come: the reason does not say "yet"."""
    boards = played(table(SQUARE, baselines=frozenset({"d1", "d2"})))
    assert boards["attacks"]["a1"].reason == "no defence is ranked, so there is nothing to score against"


def test_nothing_counts_before_the_clean_pictures(played, table):
    """Without its clean cell a defence has no delta, and the attacks wait for it."""
    boards = played(table({"d": {"a": 50}}))
    assert boards["attacks"]["a"].score is None
    assert boards["defences"]["d"].score is None


def test_a_round_without_ordinary_submissions_ranks_nobody(played, table):
    """Baselines alone are shown, with nothing to take a mean over."""
    boards = played(table(SQUARE, baselines=frozenset({"a1", "a2", "d1", "d2"})))
    assert {row.rank for row in boards["attacks"].values()} == {None}
    assert {row.score for row in boards["defences"].values()} == {None}


@pytest.mark.parametrize("side", Side)
def test_an_empty_side_is_an_objection(tournament, submission, side):
    """A roster with nobody on a side cannot play, and its boards are empty and no error."""
    other = Side.ATTACK if side is Side.DEFENCE else Side.DEFENCE
    roster = Roster((submission("only", other),))
    found = tournament().roster_problems(roster)
    assert [str(problem) for problem in found] == [
        f"submissions: no {side} takes part; add one under `baselines:` or `submissions:`"
    ]
    boards = {board.name: board.rows for board in tournament().leaderboards(Observations(roster, {}))}
    assert [row.score for row in boards[f"{other}s"]] == [None]
    assert boards[f"{side}s"] == ()


def test_all_objections_come_at_once(tournament):
    """Two empty sides and a floor without its baseline are three problems."""
    found = tournament(clean_floor=FLOOR).roster_problems(Roster(()))
    assert [problem.place for problem in found] == ["submissions", "submissions", "rules.clean_floor"]


def test_the_floor_needs_the_organizers_baseline(tournament, submission):
    """A team's defence called `undefended` does not set the floor (A17)."""
    attack = submission("a", Side.ATTACK)
    teams, ours = (submission("undefended", Side.DEFENCE, baseline=baseline) for baseline in (False, True))
    rules = tournament(clean_floor=FLOOR)
    assert [problem.place for problem in rules.roster_problems(Roster((attack, teams)))] == ["rules.clean_floor"]
    assert rules.roster_problems(Roster((attack, ours))) == []


def test_the_defaults_follow_the_document(tournament):
    """The documents' readings: held, forfeit, disqualify, 10 points, weights 0.2, 0.4, 0.4, the first 5, 3 and 3."""
    default = type(tournament().rules)().model_dump(mode="json")
    assert default == {
        "on_missing": "held",
        "on_violation": "forfeit",
        "on_finding": "disqualify",
        "clean_floor": {"baseline": "undefended", "points": "10"},
        "initial": {
            "classifier": "fgsm_trained",
            "crafted_on": "surrogate",
            "weights": {"fgsm": "0.2", "bim": "0.4", "pgd": "0.4"},
        },
        "finalists": 5,
        "final": "everybody",
        "tasks_per_person": 3,
        "submissions_per_team": 3,
    }


@pytest.mark.parametrize(
    "rules",
    [
        {"on_mising": "held"},
        {"on_missing": "guess"},
        {"clean_floor": {"points": -1}},
        {"clean_floor": {"points": 101}},
        {"clean_floor": {"point": 10}},
        {"initial": {"weights": {}}},
        {"initial": {"weights": {"fgsm": 0}}},
        {"initial": {"weights": {"fgsm": 1.5}}},
        {"initial": {"weights": {"fgsm": float("nan")}}},
        {"initial": {"classifiers": "x"}},
        {"finalists": 0},
        {"final": "nobody"},
        {"tasks_per_person": 0},
        {"submissions_per_team": 0},
    ],
)
def test_the_rules_are_strict(tournament, rules):
    """An unknown key, an unknown word or a number out of range is refused."""
    with pytest.raises(ValidationError):
        tournament(**rules)


def test_boards_say_what_they_measure(tournament, table):
    """Every board names its measure, its unit, its direction and its rules."""
    rows = {"fgsm_trained": {None: 80, "fgsm": 60, "bim": 60, "pgd": 60}}
    baselines = frozenset({"fgsm_trained", "fgsm", "bim", "pgd"})
    boards = tournament().leaderboards(table(rows, baselines=baselines).records())
    assert [(b.name, b.unit, b.more_is_better, b.rules) for b in boards] == [
        ("attacks", "points", True, ("A13", "A16")),
        ("defences", "points", False, ("A13", "A16", "A17")),
        ("attacks_initial", "points", True, ("A4", "A11", "A16")),
        ("defences_initial", "points", False, ("A4", "A12", "A16", "A17")),
    ]
    assert boards[3].measure == "weighted decrease: 0.2 x fgsm + 0.4 x bim + 0.4 x pgd"
