"""One suspect answer looked into: which proof, which hint, or nothing."""

import numpy as np
import pytest
from laboratory import Ended, Gallery, Laboratory
from players import (
    Honest,
    Shaped,
    ShapedWithoutScores,
    bisected,
    chance,
    company,
    counter,
    detecting,
    environment,
    late,
    memory,
    position,
    recent,
    time_of_day,
    uptime,
)
from refusers import uncopied

from orchestrator.domain.findings import FindingKind
from orchestrator.domain.tasks import Isolation
from orchestrator.integrity import diagnosis, planned_replays
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.integrity.determinism_check import Accusation
from orchestrator.integrity.diagnosis import BURST_LENGTH, BURST_PAUSES, BURST_SANDBOXES, PROOF_PAIRS, Proof
from orchestrator.integrity.planned_replays import ScreeningResult
from orchestrator.integrity.replay_session import SessionPurpose, SessionTrace

STEADY = np.zeros(3 * BURST_LENGTH, np.int32)


def pattern(*changed: int) -> np.ndarray:
    """Returns answers that change at these places."""
    found = STEADY.copy()
    for place in changed:
        found[place:] = 1 - found[place:]
    return found


@pytest.mark.parametrize(
    ("patterns", "kind"),
    [
        ([pattern(2, 3, 9), pattern(1, 4), STEADY], FindingKind.CHANCE),
        ([pattern(6), pattern(6, 12), STEADY], FindingKind.CLOCK),
        ([pattern(6, 12), pattern(9, 12), pattern(12)], FindingKind.CLOCK),
        ([STEADY, STEADY + 1, STEADY], FindingKind.ENVIRONMENT),
        ([pattern(6), STEADY, STEADY], FindingKind.CHANCE),
    ],
)
def test_a_hint_says_what_differs(patterns, kind) -> None:
    """Answers of one burst, of bursts, or of sandboxes only; one change at a pause may be chance."""
    assert diagnosis.hinted_kind(patterns) is kind


def investigated(lab: Laboratory, *, least: int = 1) -> tuple[Proof | FindingKind | None, SessionTrace]:
    """Returns what comes of the first mismatch of a classifier, after its planned replays."""
    play, trace, seen = lab.play(), SessionTrace(), ScreeningResult()
    chance = np.random.default_rng(lab.seed)
    sample = planned_replays.draw_sample(play, SamplingDesign(), chance)

    for session in planned_replays.planned_sessions(play, sample, chance):
        said = lab.run(trace.play_session(session))
        planned_replays.compare_session(seen, play, trace.last_number, session, said)
    mismatches = seen.mismatches + seen.within_margin
    assert len(mismatches) >= least
    if not mismatches:
        return None, trace
    return lab.run(diagnosis.diagnose_mismatch(trace, play, mismatches[0], chance)), trace


@pytest.mark.parametrize(
    ("kind", "named", "length", "how"),
    [
        (late(490), FindingKind.STATE, 491, {}),
        (counter(50), FindingKind.STATE, 25, {}),
        (recent(3), FindingKind.STATE, 4, {}),
        (memory(10), FindingKind.MEMORY, 2, {"isolation": Isolation.ROUND}),
        (company(20), FindingKind.COMPANY, 8, {"batch": 8}),
        (position(5, 10), FindingKind.COMPANY, 8, {"batch": 8}),
        (uptime(0.5, 10), FindingKind.CLOCK, BURST_LENGTH + 1, {}),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_what_repeats_is_proved(kind, named, length, how, seed) -> None:
    """The proof has its kind and the smallest length, and the sessions it names show it in a fresh sandbox."""
    lab = Laboratory(kind, Gallery.drawn(seed), seed, **how)
    proof, trace = investigated(lab)
    assert isinstance(proof, Proof)
    assert (proof.kind, len(proof.session.questions)) == (named, length)
    session, said = trace.sessions[proof.sessions[-1]]
    sequence = proof.session.questions
    assert np.array_equal(session.questions[: len(sequence)], sequence)
    assert said.answers[proof.position] != proof.answer_alone
    for _ in range(3):
        again = lab.ask(sequence, proof.session.batch, proof.session.pauses)
        assert again.answers[proof.position] == said.answers[proof.position]


@pytest.mark.parametrize("seconds", [0.5, 1.0, 1.5])
def test_a_clock_is_shown_with_every_pause_it_needs(seconds) -> None:
    """Whatever the time is from which it cheats, the sequence of the proof lets as much time pass."""
    lab = Laboratory(uptime(seconds, 3), Gallery.drawn(1, pictures=1500), 1)
    proof, _ = investigated(lab)
    assert proof.kind is FindingKind.CLOCK
    assert all(
        lab.ask(proof.session.questions, 1, proof.session.pauses).answers[proof.position] != proof.answer_alone
        for _ in range(3)
    )
    assert (lab.ask(proof.session.questions, 1).answers == proof.answer_alone).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_long_wait_shows_a_late_clock(seed) -> None:
    """From 3 seconds on, which no burst takes: the picture alone after a long silence, thrice, and no picture else."""
    lab = Laboratory(uptime(3.0, 3), Gallery.drawn(seed, cells=2, pictures=2000), seed)
    proof, trace = investigated(lab)
    assert proof.kind is FindingKind.CLOCK
    assert len(proof.session.questions) == 1
    assert len(proof.sessions) == 2 * PROOF_PAIRS
    waits = [session for session, _ in trace.sessions if session.purpose is SessionPurpose.DELAY]
    shown = [session for session, _ in trace.sessions if session.purpose is SessionPurpose.PROOF]
    assert len(shown) == PROOF_PAIRS
    assert all(3.0 < session.pauses[0] <= diagnosis.MAX_WAIT_SECONDS for session in waits + shown)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "hint"), [(chance(3), FindingKind.CHANCE), (environment(2), FindingKind.ENVIRONMENT)])
def test_what_does_not_repeat_is_a_hint(kind, hint) -> None:
    """Copies of one picture differ within a sandbox, or from sandbox to sandbox: no sequence is shown."""
    found = [investigated(Laboratory(kind, Gallery.drawn(seed), seed))[0] for seed in range(8)]
    assert found.count(hint) >= 5
    assert not any(isinstance(each, Proof) and each.kind is FindingKind.STATE for each in found)


@pytest.mark.slow
def test_the_time_of_day_is_never_called_a_count() -> None:
    """Sandboxes that agree because they started in step prove no counter: it is called a clock, or nothing."""
    kind = time_of_day(1, 4)
    found = [investigated(Laboratory(kind, Gallery.drawn(seed, pictures=200), seed))[0] for seed in range(25)]
    kinds = [each.kind if isinstance(each, Proof) else each for each in found]
    assert kinds.count(FindingKind.CLOCK) >= 20
    assert FindingKind.STATE not in kinds


def test_who_ends_when_asked_again_proves_nothing_here() -> None:
    """Faults are no answers: what refuses to be looked into is left to the refusals."""
    found, trace = investigated(Laboratory(detecting(late(300), Ended), Gallery.drawn(3), 3))
    assert found is None
    assert [session.purpose for session, _ in trace.sessions][-BURST_SANDBOXES:] == [
        SessionPurpose.BURSTS
    ] * BURST_SANDBOXES


@pytest.mark.parametrize("seed", range(3))
def test_a_fault_beside_copies_proves_no_company(seed) -> None:
    """Who ends itself at a question of copies has not answered it: no label stands against another."""
    found, trace = investigated(Laboratory(uncopied(company(20)), Gallery.drawn(seed), seed, batch=8))
    assert not isinstance(found, Proof)
    assert any(said.refused.all() for session, said in trace.sessions if session.purpose is SessionPurpose.MINIMISE)


@pytest.mark.parametrize("kind", [Shaped, ShapedWithoutScores])
@pytest.mark.parametrize("seed", range(5))
def test_another_shape_is_no_cheat(kind, seed) -> None:
    """Whose last bits depend on how many pictures are in a question is answered in the shape of the play throughout."""
    gallery = bisected(Gallery.drawn(seed), quantised=False)
    found, _ = investigated(Laboratory(kind, gallery, seed, batch=8))
    assert found is None


def test_bursts_have_pauses_between_them() -> None:
    """A suspect is asked in three bursts in each of three sandboxes."""
    _, trace = investigated(Laboratory(counter(50), Gallery.drawn(0), 0))
    bursts = [session for session, _ in trace.sessions if session.purpose is SessionPurpose.BURSTS and session.pauses]
    assert len(bursts) == BURST_SANDBOXES
    for session in bursts:
        assert len({tuple(row) for row in session.questions.tolist()}) == 1
        assert session.pauses == BURST_PAUSES
        assert len(session.questions) == 3 * BURST_LENGTH


def test_an_accusation_has_a_proof_or_a_rate() -> None:
    """Whoever is accused can read which."""
    verdict = Laboratory(counter(50), Gallery.drawn(0), 0).judge()
    assert isinstance(verdict.accusation, Accusation)
    assert (verdict.accusation.proof is None) != (verdict.accusation.p_value is None)


def test_an_honest_classifier_has_no_suspects() -> None:
    """There is nothing to look into."""
    verdict = Laboratory(Honest, Gallery.drawn(0), 0).judge()
    assert not verdict.mismatches
    assert all(s.purpose in {SessionPurpose.SHUFFLED, SessionPurpose.SAME_ORDER} for s, _ in verdict.trace.sessions)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "galleries"), [(environment(2), 40), (time_of_day(60, 2), 12)])
def test_no_wrong_cause_is_proved(kind, galleries) -> None:
    """What a sandbox draws at its start, and what turns with the minutes, repeats in step now and then: no proof."""
    for seed in range(galleries):
        found, _ = investigated(Laboratory(kind, Gallery.drawn(seed, pictures=60), seed), least=0)
        assert not isinstance(found, Proof), (seed, found.kind)


def test_sequence_and_control_share_a_seed() -> None:
    """Each pair of a proof is told one seed, no two pairs the same, and either comes first."""
    lab = Laboratory(counter(50), Gallery.drawn(0), 0)
    verdict = lab.judge()
    numbers = verdict.accusation.proof.sessions
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    assert len(pairs) == PROOF_PAIRS
    assert all(lab.told[control] == lab.told[sequence] for control, sequence in pairs)
    assert len({lab.told[control] for control, _ in pairs}) == PROOF_PAIRS
    assert len({control < sequence for control, sequence in pairs}) == 2
