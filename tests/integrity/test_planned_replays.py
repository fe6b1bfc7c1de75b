"""The planned replays: what they ask, and what they make of the answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from laboratory import Gallery, Laboratory
from players import Honest

from orchestrator.domain.plan import Cell
from orchestrator.domain.tasks import Isolation
from orchestrator.integrity import detection_power, planned_replays
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.integrity.planned_replays import ScreeningResult
from orchestrator.integrity.replay_session import DefencePlay, ReplaySession, SessionAnswers, SessionPurpose

SEEDS = st.integers(0, 2**32)


@st.composite
def samples(draw) -> np.ndarray:
    """Some distinct questions about 4 cells and 20 pictures."""
    chosen = draw(st.lists(st.integers(0, 79), min_size=1, max_size=80, unique=True))
    return np.array([divmod(each, 20) for each in chosen], np.int32)


def rows(questions) -> set[tuple[int, int]]:
    """Returns questions as a set."""
    return {tuple(row) for row in np.asarray(questions).tolist()}


@settings(deadline=None)
@given(samples(), st.integers(0, 3), SEEDS)
def test_every_clean_version_comes_first(sample, clean, seed) -> None:
    """The sample and its clean versions are asked once each, and no version of a picture before the clean one."""
    order = planned_replays.clean_first(sample, clean, np.random.default_rng(seed))
    assert len(order) == len(rows(order))
    assert rows(order) == rows(sample) | {(clean, picture) for _, picture in rows(sample)}
    met = set()
    for cell, picture in order.tolist():
        assert cell == clean or picture in met
        met |= {picture} if cell == clean else set()


def test_clean_pictures_are_not_all_at_the_beginning() -> None:
    """The order stays a random one: attacked pictures are asked from early on."""
    sample = np.array([(1, picture) for picture in range(500)], np.int32)
    order = planned_replays.clean_first(sample, 0, np.random.default_rng(3))
    assert 100 < np.flatnonzero(order[:, 0] == 1)[100] < 500


@settings(deadline=None)
@given(samples())
def test_a_wave_holds_one_version_of_a_picture(sample) -> None:
    """No wave shows two versions, none is empty, and together they are the sample."""
    parts = list(planned_replays.split_by_version(sample))
    for part in parts:
        assert 0 < len(part) == len(set(part[:, 1].tolist()))
    assert sorted(map(tuple, np.concatenate(parts).tolist())) == sorted(map(tuple, sample.tolist()))
    assert len(parts) == np.bincount(sample[:, 1]).max()


@pytest.mark.slow
def test_the_sample_is_uniform() -> None:
    """Over many draws every question is drawn equally often, wherever it stood in play, and never twice in one."""
    play = Laboratory(Honest, Gallery.drawn(1, cells=2, pictures=30), 1).play()
    design = SamplingDesign(power=0.5, cheat=0.05)
    counts = dict.fromkeys(rows(play.rows[:, :2]), 0)
    draws = 3000
    for seed in range(draws):
        sample = planned_replays.draw_sample(play, design, np.random.default_rng(seed))
        assert len(rows(sample)) == len(sample) == detection_power.sample_size(60, design)
        for question in rows(sample):
            counts[question] += 1
    expected = draws * detection_power.sample_size(60, design) / 60
    assert max(abs(count - expected) for count in counts.values()) < 5 * np.sqrt(expected)


def test_only_what_was_answered_is_drawn() -> None:
    """A question without a decision cannot be compared, so it is not in the sample."""
    play = DefencePlay((Cell("d"),), (np.array([[0, 0, 4], [0, 1, -2], [0, 2, -1]], np.int32),), 3)
    assert rows(planned_replays.draw_sample(play, SamplingDesign(power=0.999), np.random.default_rng(0))) == {
        (0, 0),
        (0, 2),
    }


@pytest.mark.parametrize("isolation", [Isolation.ATTACK, Isolation.ROUND])
@pytest.mark.parametrize("batch", [1, 8])
def test_what_is_planned(isolation, batch) -> None:
    """Every drawn question is asked in fresh sandboxes, twice in its own, a sandbox of play again, and some alone."""
    lab = Laboratory(Honest, Gallery.drawn(2, cells=3, pictures=300), 2, isolation=isolation, batch=batch)
    play = lab.play()
    chance = np.random.default_rng(2)
    sample = planned_replays.draw_sample(play, SamplingDesign(), chance)
    planned = planned_replays.planned_sessions(play, sample, chance)
    shuffled = [session for session in planned if session.purpose is SessionPurpose.SHUFFLED]
    assert rows(sample) <= set().union(*(rows(session.questions) for session in shuffled))
    for session in shuffled:
        twice, times = np.unique(session.questions, axis=0, return_counts=True)
        assert rows(twice[times == 2]) == rows(sample) & rows(session.questions)
        assert times.max() == 2
    (twin,) = [session for session in planned if session.purpose is SessionPurpose.SAME_ORDER]
    assert len(twin.questions) >= detection_power.SAME_ORDER_QUESTIONS
    assert any(np.array_equal(twin.questions, part[: len(twin.questions), :2]) for part in play.sandboxes)
    alone = [session for session in planned if session.purpose is SessionPurpose.SINGLE]
    assert [session.batch for session in planned] == [batch] * (len(planned) - len(alone)) + [1] * len(alone)
    assert len(alone) == (batch > 1)
    assert [session.planned_after for session in planned] == list(reversed(range(len(planned))))
    if isolation is Isolation.ROUND:
        for session in shuffled:
            assert len(rows(session.questions)) == len(set(session.questions[:, 1].tolist()))


@pytest.fixture
def play() -> DefencePlay:
    """Two cells of four pictures; one answer is a fault."""
    clean = np.array([[0, 0, 1], [0, 1, 2], [0, 2, -1], [0, 3, -2]], np.int32)
    return DefencePlay((Cell("d"), Cell("d", "a")), (clean, clean + np.array([1, 0, 0], np.int32)), 4)


def screened(play: DefencePlay, questions, answers, purpose=SessionPurpose.SHUFFLED, **said) -> ScreeningResult:
    """Returns what one session shows, all of its questions drawn."""
    asked = np.array(questions, np.int32)
    seen, count = ScreeningResult(sample=frozenset(map(tuple, asked.tolist()))), len(asked)
    none = np.zeros(count, bool)
    told = {"margins": np.full(count, np.nan, np.float32), "refused": none, "late": none} | said
    told = SessionAnswers(np.array(answers, np.int32), answer_times=np.zeros(count), **told)
    planned_replays.compare_session(seen, play, 7, ReplaySession(purpose, asked), told)
    return seen


def test_another_decision_is_a_mismatch(play) -> None:
    """Label against label, and label against abstention; the mismatch says where it was seen."""
    seen = screened(play, [(0, 0), (0, 1), (0, 2)], [1, -1, 3])
    assert [(c.picture, c.first, c.second, c.session, c.position) for c in seen.mismatches] == [
        (1, 2, -1, 7, 1),
        (2, -1, 3, 7, 2),
    ]
    assert (seen.asked_count, seen.compared_count, len(seen.decided)) == (3, 3, 3)


def test_a_fault_is_no_decision(play) -> None:
    """Neither a fault in play nor one in the replay is compared; the power that was achieved does not count it."""
    seen = screened(play, [(0, 0), (0, 3), (0, 1)], [-2, 4, 2])
    assert not seen.mismatches
    assert (seen.asked_count, seen.compared_count, len(seen.decided)) == (3, 1, 1)


def test_a_second_answer_is_held_against_the_first(play) -> None:
    """In one sandbox the same question is compared with its own first answer, and counted as drawn once."""
    seen = screened(play, [(0, 0), (0, 1), (0, 0), (0, 0)], [5, 2, 5, 1])
    assert [(c.first, c.second, c.position) for c in seen.mismatches] == [(1, 5, 0), (5, 1, 3)]
    assert (seen.compared_count, len(seen.decided)) == (4, 2)


def test_only_failures_at_what_was_answered_count(play) -> None:
    """Who could not answer in play refuses nothing; what was never put is missing, and neither refused nor late."""
    questions, silent = [(0, 0), (0, 1), (0, 3), (0, 2)], [-2] * 4
    refused, late = np.array([True, False, True, False]), np.array([False, True, False, False])
    seen = screened(play, questions, silent, refused=refused, late=late)
    assert seen.refused == {(0, 0)}
    assert seen.late == {(0, 1)}
    assert list(seen.undecided) == [(0, 0), (0, 1), (0, 2)]
    assert seen.failing_sessions == {7}


def test_what_was_decided_is_not_missing(play) -> None:
    """Who fails the second time only has been compared; nothing has to be asked again."""
    seen = screened(play, [(0, 0), (0, 0)], [1, -2], late=np.array([False, True]))
    assert seen.late == {(0, 0)}
    assert not seen.undecided


def test_disagreements_count_whatever_margin_was_claimed(play) -> None:
    """The cap on noise is for all of them: second answers of one sandbox, and what claims to be on its boundary.

    A question counts once, however often it disagrees: its answers are not independent of each other.
    """
    margins = np.array([1e-6] + [0.5] * 20, np.float32)
    seen = screened(play, [(0, 0), (0, 1)] + [(1, 0)] * 19, [2] + [2] + [1] * 17 + [3, 3], margins=margins)
    assert (len(seen.within_margin), len(seen.mismatches)) == (1, 2)
    assert seen.differing == {(0, 0), (1, 0)}
    assert seen.comparable == {(0, 0), (0, 1), (1, 0)}


def test_a_question_is_counted_in_one_session(play) -> None:
    """What the twin asks once more adds nothing: one odd answer of the play would count as two."""
    seen = screened(play, [(0, 0), (0, 1)], [1, 2])
    asked = np.array([(0, 0), (0, 1)], np.int32)
    none = np.zeros(2, bool)
    said = SessionAnswers(np.array([5, 5], np.int32), np.full(2, np.nan, np.float32), np.zeros(2), none, none)
    planned_replays.compare_session(seen, play, 8, ReplaySession(SessionPurpose.SAME_ORDER, asked), said)
    assert len(seen.mismatches) == 2
    assert (seen.differing, len(seen.comparable)) == (set(), 2)


@pytest.mark.parametrize(
    ("purpose", "alike"), [(SessionPurpose.SHUFFLED, 0), (SessionPurpose.SINGLE, 0), (SessionPurpose.SAME_ORDER, 2)]
)
def test_other_company_is_no_noise(play, purpose, alike) -> None:
    """Where questions hold several pictures, last bits may depend on the place: only the same company has to agree."""
    together = DefencePlay(play.cells, play.sandboxes, play.picture_count, batch=2)
    assert len(screened(together, [(0, 0), (0, 1)], [1, 5], purpose).comparable) == alike


def test_a_tiny_margin_is_noise(play) -> None:
    """A disagreement within the margin that rounding may cross is told apart from a mismatch."""
    margins = np.array([1e-6, 0.1] + [0.5] * 18, np.float32)
    seen = screened(play, [(0, 0), (0, 1)] + [(1, 0)] * 18, [2, 1] + [1] * 18, margins=margins)
    assert [c.picture for c in seen.within_margin] == [0]
    assert [c.picture for c in seen.mismatches] == [1]


def test_who_claims_tiny_margins_everywhere_is_not_believed(play) -> None:
    """Where more than one answer in ten claims one, margins prove nothing."""
    margins = np.array([1e-6, 1e-6] + [0.5] * 8, np.float32)
    seen = screened(play, [(0, 0), (0, 1)] + [(1, 0)] * 8, [2, 1] + [1] * 8, margins=margins)
    assert [c.picture for c in seen.mismatches] == [0, 1]
    assert not seen.within_margin


@settings(deadline=None)
@given(arrays(np.int32, 8, elements=st.integers(-2, 5)))
def test_comparisons_add_up(answers) -> None:
    """Every pair of decisions is compared once; disagreements are among them."""
    clean = np.array([[0, n, n % 4] for n in range(8)], np.int32)
    seen = screened(DefencePlay((Cell("d"),), (clean,), 8), clean[:, :2], answers)
    assert seen.compared_count == (answers > -2).sum()
    assert len(seen.mismatches) == ((answers > -2) & (answers != clean[:, 2])).sum()
