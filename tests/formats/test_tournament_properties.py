"""What holds for the tournament's boards whatever was played."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from orchestrator.domain.contest_format import Eligibility, Observations
from orchestrator.domain.outcomes import Tally
from orchestrator.domain.plan import Cell
from orchestrator.domain.submissions import Roster, Side

TOTAL = 7
NOTED = {"actor": "desk", "task": "digits"}
FAST = settings(deadline=None, max_examples=60)
MEASURES = ("fgsm_trained", "fgsm", "bim", "pgd")
STANDINGS = st.builds(
    Eligibility,
    unranked_reason=st.sampled_from(["", "withdrawn: a bug"]),
    counts_in_means=st.booleans(),
    no_prize=st.sampled_from(["", "organizers"]),
).filter(lambda standing: standing.unranked_reason or standing.counts_in_means)


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
        "teams": draw(st.dictionaries(st.sampled_from(everybody), st.sampled_from(["one team", "another"]))),
        "standings": draw(st.dictionaries(st.sampled_from(everybody), STANDINGS)),
        "phase": draw(st.sampled_from(["", "final"])),
    }


@st.composite
def initial_rounds(draw):
    """Draws an initial round of up to eight a side with few different scores, so that ties are the rule."""
    few, times = st.integers(0, 3), st.sampled_from(["", "1", "2"])
    attacks = [f"a{n}" for n in range(draw(st.integers(1, 8)))]
    measured = {"fgsm_trained": dict.fromkeys((None, *MEASURES[1:]), TOTAL) | {a: draw(few) for a in attacks}}
    teams = {f"d{n}": {None: TOTAL} | {a: draw(few) for a in MEASURES[1:]} for n in range(draw(st.integers(1, 8)))}
    everybody = [*attacks, *teams]
    return {
        "defences": measured | teams,
        "baselines": frozenset(MEASURES),
        "submitted": {name: draw(times) for name in everybody},
        "violations": draw(st.dictionaries(st.sampled_from(attacks), st.integers(0, 1))),
        "teams": draw(st.dictionaries(st.sampled_from(everybody), st.sampled_from(["one team", "another"]))),
        "total": TOTAL,
        "phase": "initial",
    }


RULES = st.fixed_dictionaries(
    {
        "on_finding": st.sampled_from(["disqualify", "zero", "flag"]),
        "on_violation": st.sampled_from(["forfeit", "clip", "disqualify"]),
        "clean_floor": st.sampled_from([None, {"baseline": "d0", "points": 10}]),
    }
)


@pytest.mark.slow
@FAST
@given(rounds() | initial_rounds(), RULES, st.randoms(use_true_random=False))
def test_boards_do_not_depend_on_the_order_of_anything(table, tournament, drawn, rules, chance):
    """Another order of the contest file, of the cells and of the findings gives the same boards."""
    records = table(**drawn).records()
    assert tournament(**rules).leaderboards(shuffled(records, chance)) == tournament(**rules).leaderboards(records)


@pytest.mark.slow
@FAST
@given(initial_rounds(), st.integers(1, 6), st.randoms(use_true_random=False))
def test_promotion_is_stable_under_ties_and_order(table, tournament, drawn, finalists, chance):
    """Any order of input promotes the same, in the same order, however many tie (A16)."""
    records = table(**drawn).records()
    promoted = tournament(finalists=finalists).round_outcome(records, **NOTED)
    assert tournament(finalists=finalists).round_outcome(shuffled(records, chance), **NOTED) == promoted


@pytest.mark.slow
@FAST
@given(initial_rounds(), st.integers(1, 6))
def test_promotion_takes_whole_ranks_from_the_top(table, tournament, drawn, finalists):
    """Who goes on are the first ranks of the board, none left out, and more than `finalists` only by a tie (A16)."""
    rules, records = tournament(finalists=finalists), table(**drawn).records()
    promoted = rules.round_outcome(records, **NOTED)
    for board, names in zip(rules.leaderboards(records), (promoted.attacks, promoted.defences), strict=True):
        ranks = {row.submission: row.rank for row in board.rows if row.rank}
        assert names == [name for name, place in ranks.items() if place <= finalists]
        assert len(names) >= min(finalists, len(ranks))
        last = [name for name in names if ranks[name] == ranks[names[-1]]]
        assert len(names) - len(last) < finalists
        assert not {ranks[name] for name in names} & {place for name, place in ranks.items() if name not in names}


@pytest.mark.slow
@FAST
@given(initial_rounds())
def test_one_submission_stands_for_each_team(table, tournament, drawn):
    """Each team that has a ranked submission on a side has exactly one, and no other of it is better (A4)."""
    records = table(**drawn).records()
    teams = {submission.id: submission.team for submission in records.roster if not submission.baseline}
    for board in tournament().leaderboards(records):
        standing = [teams[row.submission] for row in board.rows if row.rank]
        assert sorted(standing) == sorted({teams[row.submission] for row in board.rows if row.submission in teams})
        scores = {teams[row.submission]: row.score for row in board.rows if row.rank}
        for row in board.rows:
            if row.submission in teams:
                best = scores[teams[row.submission]]
                assert (row.score <= best) if board.more_is_better else (row.score >= best)


@pytest.mark.slow
@FAST
@given(rounds(), RULES)
def test_a_score_is_the_sum_of_its_terms(table, tournament, drawn, rules):
    """Every score is 100 times the sum of weight times accuracy over its terms, exactly (X5)."""
    records = table(**drawn).records()
    for row in (row for board in tournament(**rules).leaderboards(records) for row in board.rows):
        parts = [weight * records.tallies[cell].accuracy for cell, weight in row.score_terms.items()]
        assert row.score == (100 * sum(parts, Fraction(0)) if row.score_terms else None)


@pytest.mark.slow
@FAST
@given(rounds() | initial_rounds(), RULES, st.data())
def test_one_more_attacked_picture_held_moves_scores_one_way(table, tournament, drawn, rules, data):
    """Then neither that attack nor that defence has a larger score, no other score changes, and ranks follow.

    An attacked picture is no clean one, so floors, findings and means are over the same submissions.
    """
    cells = [(d, a) for d, row in drawn["defences"].items() for a, held in row.items() if a and held < TOTAL]
    assume(cells)
    defence, attack = data.draw(st.sampled_from(sorted(cells)))
    before = tournament(**rules).leaderboards(table(**drawn).records())
    drawn["defences"][defence][attack] += 1
    after = tournament(**rules).leaderboards(table(**drawn).records())
    for old, new in zip(before, after, strict=True):
        then = {row.submission: row for row in old.rows}
        for row in new.rows:
            past = then[row.submission]
            if row.submission not in (defence, attack):
                assert row.score == past.score
            elif row.score is not None:
                assert row.score <= past.score
                if row.rank and past.rank:
                    assert (row.rank >= past.rank) if new.more_is_better else (row.rank <= past.rank)


@pytest.mark.slow
@FAST
@given(rounds(), RULES, st.data())
def test_one_more_clean_picture_held_moves_scores_the_other_way(table, tournament, drawn, rules, data):
    """Then that defence loses more to everybody, every attack gains, and no other defence changes; without a floor."""
    defence = data.draw(st.sampled_from(sorted(drawn["defences"])))
    assume(drawn["defences"][defence][None] < TOTAL)
    rules |= {"clean_floor": None}
    before = tournament(**rules).leaderboards(table(**drawn).records())
    drawn["defences"][defence][None] += 1
    after = tournament(**rules).leaderboards(table(**drawn).records())
    for old, new in zip(before, after, strict=True):
        then = {row.submission: row.score for row in old.rows}
        for row in (row for row in new.rows if row.score is not None):
            assert row.score >= then[row.submission]
            if not new.more_is_better and row.submission != defence:
                assert row.score == then[row.submission]


@pytest.mark.slow
@FAST
@given(rounds(), RULES, st.booleans())
def test_an_attack_that_does_nothing_changes_nothing_else(table, tournament, drawn, rules, baseline):
    """A newcomer with delta 0 everywhere adds its own cells, and leaves every other attack's row (A13).

    It halves, thirds and so on what all defences lose alike, so their order stays too. What a found defence loses under
    `zero` is not the attack's doing: there its delta is not 0, so the order is looked at without findings.
    """
    drawn |= {"phase": "", "findings": ()} if rules["on_finding"] == "zero" else {"phase": ""}
    rules = tournament(**rules)
    records = table(**drawn).records()
    for row in drawn["defences"].values():
        row["zero"] = row[None]
    if baseline:
        drawn["baselines"] |= {"zero"}
    grown = table(**drawn).records()
    assert [c for c in rules.schedule(grown.roster) if c.attack != "zero"] == list(rules.schedule(records.roster))
    assert {cell: tally for cell, tally in grown.tallies.items() if cell.attack != "zero"} == records.tallies
    before, after = ({board.name: board.rows for board in rules.leaderboards(given)} for given in (records, grown))
    others = [row for row in after["attacks"] if row.submission != "zero"]
    assert [unplaced(row) for row in others] == [unplaced(row) for row in before["attacks"]]
    if any(row.rank for row in before["attacks"]):
        assert [r.submission for r in after["defences"]] == [r.submission for r in before["defences"]]
        assert [r.rank for r in after["defences"]] == [r.rank for r in before["defences"]]


@pytest.mark.slow
@FAST
@given(rounds(), RULES, st.lists(st.integers(0, TOTAL), min_size=5, max_size=5))
def test_a_baseline_defence_changes_no_attacks_score(table, played, drawn, rules, held):
    """Baselines are shown; the means of A13 run over the ordinary submissions only (A3)."""
    before = played(table(**drawn), **rules)["attacks"]
    attacks = next(iter(drawn["defences"].values()))
    drawn["defences"]["extra"] = dict(zip(attacks, held, strict=False))
    drawn["baselines"] |= {"extra"}
    assert played(table(**drawn), **rules)["attacks"] == before


@pytest.mark.slow
@FAST
@given(rounds())
def test_scores_are_the_means_of_a_matrix(table, played, drawn):
    """Without findings and floor, every score is a row's or a column's mean of clean minus attacked (A13)."""
    drawn |= {"findings": (), "violations": {}, "standings": {}}
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


@pytest.mark.slow
@FAST
@given(rounds(), RULES)
def test_every_submission_is_on_its_board_once(table, tournament, drawn, rules):
    """Nobody is hidden: whoever is not ranked has a reason, and whoever is ranked has a score."""
    roster = table(**drawn).roster()
    boards = {board.name: board.rows for board in tournament(**rules).leaderboards(table(**drawn).records())}
    for side in Side:
        rows = boards[f"{side}s"]
        assert sorted(row.submission for row in rows) == sorted(s.id for s in roster.by_side(side))
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
    boards = played(Observations(records.roster, tallies))
    assert boards["attacks"]["a"].score == Fraction(100 * (total - held), total)


def shuffled(records, chance):
    """Returns the same records with everything in another order."""
    submissions, tallies, findings = list(records.roster), list(records.tallies.items()), list(records.findings)
    for part in (submissions, tallies, findings):
        chance.shuffle(part)
    return replace(records, roster=Roster(tuple(submissions)), tallies=dict(tallies), findings=tuple(findings))


def unplaced(row):
    """Returns a row without its place among the others."""
    return replace(row, rank=None, prize_rank=None)
