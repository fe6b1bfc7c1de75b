"""The first replay check: what is chosen, and what it proves (A9, A10)."""

import numpy as np
import pytest

from orchestrator.arena import replay
from orchestrator.domain.findings import FindingKind
from orchestrator.domain.plan import Cell
from orchestrator.domain.rulings import ABSTAINED, FAULTED, NOT_ASKED

CELLS = (Cell("d"), Cell("d", "a"), Cell("d", "b"))


def table(count=40):
    """Returns answers per cell; one cell was never asked about the first ten pictures."""
    answers = {cell: np.full(count, place, np.int32) for place, cell in enumerate(CELLS)}
    answers[CELLS[1]][:10] = NOT_ASKED
    return answers


def test_a_share_of_the_pictures_is_chosen_each_once() -> None:
    """Half of forty pictures are twenty different ones, each in a cell where the defence was asked."""
    choice = replay.choose(CELLS, table(), 0.5, seed=3)
    pictures = choice.rows[:, 1].tolist()
    assert len(pictures) == len(set(pictures)) == 20
    assert (choice.played == choice.rows[:, 0]).all()
    assert set(choice.rows[:, 0].tolist()) == {0, 1, 2}


def test_the_choice_depends_on_the_secret_alone() -> None:
    """The same seed chooses the same pictures, another one others."""
    first, again, other = (replay.choose(CELLS, table(), 0.5, seed=seed) for seed in (1, 1, 2))
    assert (first.rows == again.rows).all()
    assert first.rows.tolist() != other.rows.tolist()


def test_a_defence_that_was_never_asked_is_not_replayed() -> None:
    """Where every candidate was forfeited there is nothing to compare."""
    answers = {CELLS[1]: np.full(5, NOT_ASKED, np.int32)}
    assert len(replay.choose((CELLS[1],), answers, 1.0, seed=1).rows) == 0


def test_disagreements_are_asked_again_first() -> None:
    """Every disagreement is repeated before anybody is accused, and a few others beside."""
    choice = replay.Choice(CELLS, np.zeros((6, 2), np.int32), np.array([0, 1, 2, 3, 0, 1], np.int32))
    places = replay.again(choice, np.array([0, 1, 0, 3, FAULTED, 2], np.int32), repeats=2)
    assert places.tolist() == [2, 5, 0, 1]


def rows(*lines):
    """Returns replay rows (cell, picture, played, replayed, repeated)."""
    return np.array(lines, np.int32)


@pytest.mark.parametrize(
    "line",
    [
        (0, 1, 2, 2, NOT_ASKED),
        (0, 1, 2, 2, 2),
        (0, 1, ABSTAINED, ABSTAINED, ABSTAINED),
        (0, 1, FAULTED, 2, 2),
        (0, 1, 2, FAULTED, NOT_ASKED),
        (0, 1, 2, 2, FAULTED),
    ],
)
def test_agreement_and_faults_accuse_nobody(line) -> None:
    """Equal decisions are fine, and a fault is no decision."""
    assert replay.findings("d", CELLS, rows(line)) == []


def test_a_decision_that_changes_within_a_sandbox_is_chance() -> None:
    """The same picture twice in one sandbox, two answers: chance (A10)."""
    (found,) = replay.findings("d", CELLS, rows((0, 1, 2, 2, 2), (1, 5, 3, 0, 3)))
    assert (found.kind, found.rules) == (FindingKind.CHANCE, ("A10",))
    (line,) = found.disagreements
    assert (line.attack, line.picture, line.played, line.replayed, line.repeated) == ("a", 5, 3, 0, 3)


def test_a_decision_that_stays_changed_is_state() -> None:
    """Another answer in a fresh sandbox and order, kept when asked again: state (A9)."""
    (found,) = replay.findings("d", CELLS, rows((0, 1, 2, 2, 2), (2, 7, 1, ABSTAINED, ABSTAINED)))
    assert (found.kind, found.rules) == (FindingKind.STATE, ("A9", "A10"))
    assert found.compared == 2


def test_the_same_evidence_has_the_same_id() -> None:
    """A finding's id names its evidence, so a resumed round makes it once."""
    evidence = rows((1, 5, 3, 0, 3))
    assert replay.findings("d", CELLS, evidence)[0].id == replay.findings("d", CELLS, evidence)[0].id
    assert replay.findings("d", CELLS, evidence)[0].id != replay.findings("e", CELLS, evidence)[0].id
