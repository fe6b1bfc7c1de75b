"""What holds for the tournament's boards whatever was played."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.contests.base import Records
from orchestrator.domain.plan import Cell
from orchestrator.domain.rulings import Tally
from orchestrator.domain.submissions import Roster, Side

TOTAL = 7
FAST = settings(deadline=None, max_examples=60)


@st.composite
def rounds(draw):
    """Draws a table: up to 4 defences against up to 4 attacks, each cell with 0 to 7 pictures held of 7."""
    attacks = [f"a{n}" for n in range(draw(st.integers(1, 4)))]
    held = st.integers(0, TOTAL)
    defences = {f"d{n}": {attack: draw(held) for attack in (None, *attacks)} for n in range(draw(st.integers(1, 4)))}
    everybody = [*attacks, *defences]
    return {
        "defences": defences,
        "baselines": frozenset(draw(st.sets(st.sampled_from(everybody)))),
        "submitted": draw(st.dictionaries(st.sampled_from(everybody), st.sampled_from(["1", "2"]))),
        "findings": tuple(draw(st.sets(st.sampled_from(sorted(defences))))),
        "violations": draw(st.dictionaries(st.sampled_from(attacks), st.integers(0, 2))),
        "total": TOTAL,
    }


RULES = st.fixed_dictionaries(
    {
        "on_finding": st.sampled_from(["disqualify", "zero", "flag"]),
        "on_violation": st.sampled_from(["forfeit", "clip", "disqualify"]),
        "clean_floor": st.sampled_from([None, {"baseline": "d0", "points": 10}]),
    }
)


@FAST
@given(rounds(), RULES, st.randoms(use_true_random=False))
def test_boards_do_not_depend_on_the_order_of_anything(table, tournament, drawn, rules, chance):
    """Another order of the contest file, of the cells and of the findings gives the same boards."""
    records = table(**drawn).records()
    submissions, tallies, findings = list(records.roster), list(records.tallies.items()), list(records.findings)
    for part in (submissions, tallies, findings):
        chance.shuffle(part)
    shuffled = Records(Roster(tuple(submissions)), dict(tallies), tuple(findings), records.violations)
    assert tournament(**rules).boards(shuffled) == tournament(**rules).boards(records)


@FAST
@given(rounds(), RULES, st.booleans())
def test_an_attack_that_does_nothing_changes_no_other_attack(table, played, drawn, rules, baseline):
    """A newcomer with delta 0 everywhere leaves every other attack's score and row as they were (A13)."""
    before = played(table(**drawn), **rules)["attacks"]
    for row in drawn["defences"].values():
        row["zero"] = row[None]
    if baseline:
        drawn["baselines"] |= {"zero"}
    after = played(table(**drawn), **rules)["attacks"]
    unplaced = {name: (row.score, row.reason, row.violations) for name, row in before.items()}
    assert unplaced == {n: (r.score, r.reason, r.violations) for n, r in after.items() if n != "zero"}
    order = [name for name, row in after.items() if row.rank is not None and name != "zero"]
    assert order == [name for name, row in before.items() if row.rank is not None]


@FAST
@given(rounds(), RULES, st.lists(st.integers(0, TOTAL), min_size=5, max_size=5))
def test_a_baseline_defence_changes_no_attacks_score(table, played, drawn, rules, held):
    """Baselines are shown; the means of A13 run over the ordinary submissions only (A3)."""
    before = played(table(**drawn), **rules)["attacks"]
    attacks = next(iter(drawn["defences"].values()))
    drawn["defences"]["extra"] = dict(zip(attacks, held, strict=False))
    drawn["baselines"] |= {"extra"}
    assert played(table(**drawn), **rules)["attacks"] == before


@FAST
@given(rounds())
def test_scores_are_the_means_of_a_matrix(table, played, drawn):
    """Without findings and floor, every score is a row's or a column's mean of clean minus attacked (A13)."""
    drawn |= {"findings": (), "violations": {}}
    boards = played(table(**drawn))
    attacks = [name for name in next(iter(drawn["defences"].values())) if name is not None]
    matrix = np.array([[row[a] for a in attacks] for row in drawn["defences"].values()], dtype=object)
    clean = np.array([[row[None]] for row in drawn["defences"].values()], dtype=object)
    deltas = (clean - matrix) * Fraction(100, TOTAL)
    for side, axis, names, others in (
        ("attacks", 0, attacks, list(drawn["defences"])),
        ("defences", 1, list(drawn["defences"]), attacks),
    ):
        ordinary = [other not in drawn["baselines"] for other in others]
        part = deltas.compress(ordinary, axis=axis)
        for name, total in zip(names, part.sum(axis=axis), strict=True):
            expected = Fraction(total) / sum(ordinary) if any(ordinary) else None
            assert boards[side][name].score == expected


@FAST
@given(rounds(), RULES)
def test_every_submission_is_on_its_board_once(table, tournament, drawn, rules):
    """Nobody is hidden: whoever is not ranked has a reason, and whoever is ranked has a score."""
    roster = table(**drawn).roster()
    boards = {board.name: board.rows for board in tournament(**rules).boards(table(**drawn).records())}
    for side in Side:
        rows = boards[f"{side}s"]
        assert sorted(row.submission for row in rows) == sorted(s.id for s in roster.side(side))
        assert all((row.rank is None) == bool(row.reason) for row in rows)
        assert all(row.score is not None for row in rows if row.rank)


@FAST
@given(st.integers(1, 10**12), st.integers(0, 10**12))
def test_no_number_of_pictures_is_too_large(table, played, total, held):
    """Accuracies stay exact fractions for any number of pictures."""
    records = table({"d": {None: 0, "a": 0}}).records()
    held = min(held, total)
    tallies = {
        Cell("d"): Tally(total=total, held=total, fooled=0, abstained=0),
        Cell("d", "a"): Tally(total=total, held=held, fooled=total - held, abstained=0),
    }
    boards = played(Records(records.roster, tallies))
    assert boards["attacks"]["a"].score == Fraction(100 * (total - held), total)
