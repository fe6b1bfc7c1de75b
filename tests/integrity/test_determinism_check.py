"""A whole examination: who is accused, of what, and who never is."""

import numpy as np
import pytest
from experiments import CLASSES, HONEST
from hypothesis import given, settings
from hypothesis import strategies as st
from laboratory import Ended, Gallery, Laboratory, Late
from players import Crashing, Honest, Noisy, behaving, chance, counter, detecting, false_margins, late, memory

from orchestrator.domain.findings import RULES_BY_KIND, FindingKind
from orchestrator.domain.plan import Cell
from orchestrator.domain.tasks import Isolation
from orchestrator.integrity import non_responses
from orchestrator.integrity.detection_power import ALPHA, SamplingDesign
from orchestrator.integrity.determinism_check import MAX_SUSPECTS, check_determinism
from orchestrator.integrity.replay_session import DefencePlay, SessionAnswers, SessionPurpose

SEEDS = pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])


@pytest.mark.parametrize("fair", HONEST, ids=lambda fair: fair.name)
def test_the_honest_are_not_accused(fair) -> None:
    """Whatever it is that they do, it is no cheat, and the replays had the power that was planned.

    test_no_honest_run_is_accused of test_experiments.py has more runs.
    """
    verdict = fair.run(0)
    assert verdict.accusation is None, verdict
    assert verdict.coverage.achieved > 0.95


@pytest.mark.parametrize("each", CLASSES, ids=lambda each: each.name)
@SEEDS
def test_a_cheat_of_one_in_a_hundred_is_accused(each, seed) -> None:
    """Each class at the size that the default plans for: caught and rightly named, with its rules."""
    verdict, share = each.run(0.99, seed)
    assert 0.003 < share < 0.04
    assert verdict.accusation is not None
    assert verdict.accusation.kind in each.named
    assert RULES_BY_KIND[verdict.accusation.kind]


def sessions_of(play: DefencePlay, lab: Laboratory, seed: int) -> list[tuple]:
    """Returns what an examination asks of a laboratory that answers by the numbers of its sessions alone."""
    found = []
    examination = check_determinism(play, SamplingDesign(), np.random.default_rng(seed))
    try:
        session = next(examination)
        while True:
            found.append((session.purpose, session.questions.tolist(), session.batch, dict(session.pauses)))
            chance = np.random.default_rng([seed, len(found)])
            said = lab.ask(session.questions, session.batch)
            said.answers[chance.random(len(said.answers)) < 0.02] = 5
            session = examination.send(said)
    except StopIteration as end:
        found.append(end.value.coverage)
        found.append(end.value.accusation and end.value.accusation.kind)
        return found


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("batch", [1, 8])
def test_the_same_answers_give_the_same_sessions(isolation, batch) -> None:
    """An examination can be played again from the record: nothing in it is drawn that the seed does not say."""
    lab = Laboratory(Honest, Gallery.drawn(3, pictures=120), 3, isolation=isolation, batch=batch)
    play = lab.play()
    first = sessions_of(play, lab, 3)
    assert len(first) > 6
    assert first == sessions_of(play, lab, 3)
    assert first[0] != sessions_of(play, lab, 4)[0]


def test_no_power_plays_nothing() -> None:
    """With power 0, and where nothing was answered, no session is asked for."""
    play = Laboratory(Honest, Gallery.drawn(0, pictures=20), 0).play()
    silent = DefencePlay((Cell("d"),), (np.array([[0, 0, -2]], np.int32),), 1)
    for played, design in (
        (play, SamplingDesign(power=0)),
        (silent, SamplingDesign()),
        (DefencePlay((Cell("d"),), (), 1), SamplingDesign()),
    ):
        with pytest.raises(StopIteration) as end:
            next(check_determinism(played, design, np.random.default_rng(0)))
        assert end.value.value.coverage.achieved == 0
        assert end.value.value.accusation is None


def test_coverage_counts_what_was_compared() -> None:
    """Of a defence that faults, only what was answered twice counts towards the power."""
    lab = Laboratory(Crashing, Gallery.drawn(0, pictures=700), 0)
    play = lab.play()
    coverage = lab.examine(play).coverage
    assert coverage.questions == len(play.decided_rows) < 2100
    assert coverage.decided <= coverage.drawn
    assert coverage.changed == 21
    assert coverage.sandboxes == 2


def test_mismatches_that_cannot_be_confirmed_accuse_nobody() -> None:
    """One answer in play was another one, as a cosmic ray may have it: nothing of it can be repeated."""
    lab = Laboratory(Honest, Gallery.drawn(0, pictures=100), 0)
    play = lab.play()
    for rows in play.sandboxes:
        rows[0, 2] = (rows[0, 2] + 1) % 6
    verdict = lab.examine(play)
    assert 1 <= len(verdict.mismatches) <= MAX_SUSPECTS
    assert verdict.accusation is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_false_margins_outweigh_no_proof(seed) -> None:
    """Who claims to be on its boundary wherever it cheats is caught all the same, by a sequence or by the rates."""
    for cheat, kind in ((counter(2), FindingKind.STATE), (chance(2), FindingKind.CHANCE)):
        verdict = Laboratory(false_margins(cheat, 50), Gallery.drawn(seed), seed).judge()
        assert verdict.coverage.mismatches == 0
        assert verdict.coverage.noise > 0
        assert verdict.accusation is not None
        assert verdict.accusation.kind is kind


@pytest.mark.slow
def test_a_noisy_device_below_the_cap_is_looked_into_and_not_accused() -> None:
    """Pictures that lie exactly on the boundary, in one answer of a thousand: disagreements, and no accusation."""
    looked = 0
    for seed in range(7, 17):
        gallery = Gallery.drawn(seed, cells=3, pictures=1000)
        gallery.pixels[1:, seed, :] = 0  # all scores are equal
        verdict = Laboratory(Ties, gallery, seed).judge()
        looked += bool(verdict.coverage.mismatches or verdict.coverage.noise)
        assert verdict.accusation is None
    assert looked >= 3


class Ties(Noisy):
    """It gives one of all classes by chance where their scores are the same."""

    def scored(self, pixels) -> np.ndarray:
        """Returns scores with a last bit of noise."""
        return (super().scored(pixels) + 1e-5 * self.chance.standard_normal(6)).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_who_ends_itself_when_recognised_as_examined_is_accused(seed) -> None:
    """It answered in play, and refuses a second time when it is asked again."""
    lab = Laboratory(detecting(late(300), Ended), Gallery.drawn(seed), seed)
    verdict = lab.judge()
    assert verdict.accusation.kind is FindingKind.REFUSED
    assert verdict.accusation.p_value < ALPHA
    shown = [verdict.trace.sessions[number] for number in verdict.accusation.sessions]
    assert len(shown) % non_responses.SESSION_PAIRS == 0
    assert {session.purpose for session, _ in shown} == {SessionPurpose.TRIGGER}
    assert sum(bool(said.refused.any()) for _, said in shown) > len(shown) / 2
    assert verdict.coverage.achieved >= 0.99


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cheat", [late(300), counter(100), chance(100)])
def test_who_stalls_when_recognised_as_examined_is_accused(cheat, seed) -> None:
    """It lets deadlines pass where it sees two versions, and where it is asked as in play it does not."""
    verdict = Laboratory(detecting(cheat, Late), Gallery.drawn(seed), seed).judge()
    assert verdict.accusation is not None
    assert verdict.accusation.kind is FindingKind.REFUSED
    assert verdict.coverage.refused == 0
    assert verdict.coverage.late > 0
    assert verdict.coverage.achieved >= 0.99


@pytest.mark.parametrize("seed", range(3))
def test_who_behaves_when_recognised_as_examined_is_accused(seed) -> None:
    """It is honest from the second time of a picture on: what is compared is what it answered in play."""
    verdict = Laboratory(behaving(counter(8)), Gallery.drawn(seed), seed).judge()
    assert verdict.accusation is not None
    assert verdict.accusation.kind is FindingKind.STATE


def again_too(questions: np.ndarray, count: int) -> np.ndarray:
    """Returns where so many of the first questions stand, a second time in the session as well."""
    return np.array([row in questions[:count].tolist() for row in questions.tolist()], bool)


def refusing(again: float) -> object:
    """Returns the verdict on a defence that refuses 20 of its replayed answers, and that share of them once more."""
    lab = Laboratory(Honest, Gallery.drawn(0, pictures=400), 0)
    examination = check_determinism(lab.play(), SamplingDesign(), np.random.default_rng(0))
    session = next(examination)
    try:
        while True:
            said = lab.ask(session.questions, session.batch)
            count = round(again * len(session.questions)) if session.purpose is SessionPurpose.AS_IN_PLAY else 20
            if session.purpose in {SessionPurpose.SHUFFLED, SessionPurpose.AS_IN_PLAY}:
                places = again_too(session.questions, count)
                said.answers[places], said.refused[places] = -2, True
            session = examination.send(said)
    except StopIteration as end:
        return end.value


@pytest.mark.parametrize(("again", "accused"), [(1.0, True), (0.1, False), (0.0, False)])
def test_a_refusal_is_confirmed(again, accused) -> None:
    """Who answers when it is asked once more, or nearly always does, has not refused."""
    verdict = refusing(again)
    assert verdict.coverage.refused == 20
    assert (verdict.accusation is not None) is accused


@pytest.mark.parametrize("seed", range(5))
def test_memory_gains_nothing_where_versions_never_meet(seed) -> None:
    """By default no sandbox of the play shows two versions of a picture: every answer is the honest one."""
    gallery = Gallery.drawn(seed)
    cheat, honest = (Laboratory(kind, gallery, seed).play().answer_table for kind in (memory(2), Honest))
    assert np.array_equal(cheat, honest)
    mixed, _ = (
        Laboratory(kind, gallery, seed, isolation=Isolation.ROUND).play().answer_table for kind in (memory(2), Honest)
    )
    assert not np.array_equal(mixed, honest)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.floats(0, 1), st.integers(1, 9))
def test_any_answers_come_to_a_verdict(seed, spread, batch) -> None:
    """Whatever a defence says, faults and nonsense included, the examination ends, and its numbers agree."""
    chance = np.random.default_rng(seed)
    lab = Laboratory(Honest, Gallery.drawn(0, pictures=40), 0, batch=batch)
    play = lab.play()
    examination = check_determinism(play, SamplingDesign(power=0.9), chance)
    session, asked = next(examination), 0
    try:
        while True:
            asked += 1
            count = len(session.questions)
            answers = play.answers_to(session.questions).copy()
            other = chance.random(count) < spread
            answers[other] = chance.integers(-2, 6, int(other.sum()))
            how = chance.integers(0, 3, count)
            refused, late = (answers == -2) & (how == 0), (answers == -2) & (how == 1)
            margins = chance.choice([np.nan, 1e-7, 0.5], count).astype(np.float32)
            session = examination.send(SessionAnswers(answers, margins, np.arange(count, dtype=float), refused, late))
    except StopIteration as end:
        verdict = end.value
    assert asked < 400
    covered = verdict.coverage
    assert covered.decided <= covered.drawn <= covered.questions
    assert covered.mismatches + covered.noise <= covered.compared <= covered.asked
    assert 0 <= covered.achieved <= 1
    if verdict.accusation is not None:
        assert verdict.mismatches or covered.noise or covered.refused
        assert all(0 <= number < asked for number in verdict.accusation.sessions)
