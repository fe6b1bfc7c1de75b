"""The determinism check of one defence: planned replays, then, only if decisions disagree, sessions that find out why.

It is a generator: it yields the sessions to play and is sent their answers, so that it can run with real sandboxes,
from a ledger, or in a simulation of thousands of rounds. The same answers always give the same verdict.
"""

from dataclasses import dataclass, field

import numpy as np

from orchestrator.domain.findings import FindingKind
from orchestrator.integrity import detection_power, disagreement_rates, non_responses, planned_replays
from orchestrator.integrity.detection_power import ALPHA, SamplingDesign
from orchestrator.integrity.diagnosis import Proof, diagnose_mismatch
from orchestrator.integrity.disagreement_rates import DisagreementRate, DisagreementRates
from orchestrator.integrity.non_responses import NonResponse
from orchestrator.integrity.planned_replays import Mismatch, ScreeningResult
from orchestrator.integrity.replay_session import DefencePlay, SessionGenerator, SessionTrace

MAX_SUSPECTS = 4
"""The most questions with a mismatch that are diagnosed."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The number of questions that the replays of one defence covered.

    `questions` were answered in play; a cheat of the contest's size would change `changed` of them. `drawn` were asked
    again and `decided` of these were compared, so that such a cheat has a mismatch with probability `achieved`. `asked`
    counts all planned questions, with their companions, and those asked again as in play; `compared` all pairs of
    decisions. `mismatches` of the pairs disagreed; `noise` more disagreed, but within the floating-point margin of the
    defence's scores. `refused` were answered in play, but when they were asked again the defence ended or broke the
    protocol; `late` missed the deadline then. `sandboxes` counts the sessions before any mismatch is diagnosed.
    """

    questions: int
    changed: int
    drawn: int
    decided: int
    achieved: float
    asked: int
    compared: int
    mismatches: int
    noise: int
    refused: int
    late: int
    sandboxes: int


@dataclass(frozen=True, eq=False)
class Accusation:
    """The accusation against a defence: its kind, and a proof or rates. `sessions` are those that show it."""

    kind: FindingKind
    sessions: tuple[int, ...]
    proof: Proof | None = None
    p_value: float | None = None
    rates: DisagreementRates | None = None


@dataclass(frozen=True, eq=False)
class DeterminismVerdict:
    """The result of a determinism check. Mismatches without an accusation were not confirmed: they accuse nobody."""

    coverage: Coverage
    mismatches: tuple[Mismatch, ...] = ()
    accusation: Accusation | None = None
    trace: SessionTrace = field(default_factory=SessionTrace)


def check_determinism(
    play: DefencePlay, design: SamplingDesign, rng: np.random.Generator
) -> SessionGenerator[DeterminismVerdict]:
    """Checks a defence against its play. `rng` is seeded from the round's secret, so nobody can foresee the sample."""
    trace, seen = SessionTrace(), ScreeningResult()
    if not len(play.decided_rows) or not design.power:
        return DeterminismVerdict(_coverage(play, design, seen, 0), trace=trace)
    sample = planned_replays.draw_sample(play, design, rng)
    seen.sample = frozenset((cell, picture) for cell, picture in sample.tolist())
    for session in planned_replays.planned_sessions(play, sample, rng):
        answers = yield from trace.play_session(session)
        planned_replays.compare_session(seen, play, trace.last_number, session, answers)
    accusation = None
    if seen.undecided:  # first: a defence that refuses repeated questions would spoil every later session
        accusation = yield from _check_unanswered(trace, play, design, seen, rng)
    sandboxes = trace.last_number + 1
    if accusation is None and (seen.mismatches or seen.within_margin):
        accusation = yield from _confirm(trace, play, design, seen, rng)
    return DeterminismVerdict(_coverage(play, design, seen, sandboxes), tuple(seen.mismatches), accusation, trace)


def _check_unanswered(
    trace: SessionTrace, play: DefencePlay, design: SamplingDesign, result: ScreeningResult, rng: np.random.Generator
) -> SessionGenerator[Accusation | None]:
    """Asks again what was not answered in the planned replays; accuses a defence that fails to answer only replays."""
    planned = non_responses.failed_too_often(trace, play, design, 0)
    leading = non_responses.failure_contexts(trace, play, 0, rng)
    if refusal := (yield from non_responses.ask_again_as_in_play(trace, play, design, result, rng)):
        return _non_response_accusation(refusal)
    if not planned:
        return None
    return _non_response_accusation((yield from non_responses.compare_triggers(trace, play, design, leading, rng)))


def _confirm(
    trace: SessionTrace, play: DefencePlay, design: SamplingDesign, result: ScreeningResult, rng: np.random.Generator
) -> SessionGenerator[Accusation | None]:
    """Diagnoses some mismatches; a proof accuses, else the measured rates, else those of the planned replays."""
    screened = tuple(range(trace.last_number + 1))
    outcome = yield from _investigate_mismatches(trace, play, design, result, rng)
    if isinstance(outcome, Accusation):
        return outcome
    first = trace.last_number + 1
    measured = yield from disagreement_rates.measure_rates(trace, play, design, rng)
    if verdict := measured.accused_kind(design.noise):
        kind, improbable = verdict
        return Accusation(outcome or kind, (first, first + 1), p_value=improbable, rates=measured)
    improbable = _screening_p_value(result, design)
    if improbable < ALPHA:
        return Accusation(outcome or FindingKind.INCONSISTENT, screened, p_value=improbable)
    if not non_responses.failed_too_often(trace, play, design, first):
        return None
    leading = non_responses.failure_contexts(trace, play, first, rng)
    return _non_response_accusation((yield from non_responses.compare_triggers(trace, play, design, leading, rng)))


def _investigate_mismatches(
    trace: SessionTrace, play: DefencePlay, design: SamplingDesign, result: ScreeningResult, rng: np.random.Generator
) -> SessionGenerator[Accusation | FindingKind | None]:
    """Diagnoses some mismatches; returns the accusation by a proof or a refusal, the kind that is hinted at, or None.

    Mismatches within the defence's margin are believed to be rounding as far as the contest's `noise` goes, because the
    rates are measured all the same. With one picture in each question they are diagnosed too: rounding gives no
    sequence that repeats, so a proof outweighs the margin.
    """
    suspects = [result.mismatches[place] for place in rng.permutation(len(result.mismatches))]
    if play.batch == 1:
        suspects += [result.within_margin[place] for place in rng.permutation(len(result.within_margin))]
    controlled = False
    for mismatch in suspects[:MAX_SUSPECTS]:
        first = trace.last_number + 1
        outcome = yield from diagnose_mismatch(trace, play, mismatch, rng)
        if isinstance(outcome, Proof):
            improbable = yield from _batch_p_value(trace, play, design, outcome, rng)
            if improbable is None or improbable < ALPHA:
                return Accusation(outcome.kind, outcome.sessions, proof=outcome, p_value=improbable)
        elif outcome is not None:
            return outcome
        if not controlled and non_responses.failed_too_often(trace, play, design, first):
            controlled = True
            provoking = non_responses.trigger_bursts(trace, play, first, rng)
            if refusal := (yield from non_responses.compare_triggers(trace, play, design, provoking, rng)):
                return _non_response_accusation(refusal)
    return None


def _screening_p_value(result: ScreeningResult, design: SamplingDesign) -> float:
    """Returns the probability that so many questions of the planned replays disagree on an honest device."""
    rate = DisagreementRate(len(result.differing), len(result.comparable))
    return rate.p_above_noise(min(1.0, planned_replays.MAX_COMPARISONS * design.noise))


def _batch_p_value(
    trace: SessionTrace, play: DefencePlay, design: SamplingDesign, proof: Proof, rng: np.random.Generator
) -> SessionGenerator[float | None]:
    """Returns, for a proof of company, the probability that rounding changes as many answers; None for other kinds."""
    if proof.kind is not FindingKind.COMPANY:
        return None
    return (yield from disagreement_rates.measure_batch_effect(trace, play, design, rng)).p_above_noise(design.noise)


def _non_response_accusation(refusal: NonResponse | None) -> Accusation | None:
    if refusal is None:
        return None
    return Accusation(FindingKind.REFUSED, refusal.sessions, p_value=refusal.p_value)


def _coverage(play: DefencePlay, design: SamplingDesign, result: ScreeningResult, sandboxes: int) -> Coverage:
    questions = len(play.decided_rows)
    changed = detection_power.changed_answer_count(questions, design.cheat) if questions else 0
    decided = len(result.decided)
    achieved = detection_power.mismatch_probability(questions, changed, decided) if decided else 0.0
    return Coverage(
        questions=questions,
        changed=changed,
        drawn=len(result.sample),
        decided=decided,
        achieved=achieved,
        asked=result.asked_count,
        compared=result.compared_count,
        mismatches=len(result.mismatches),
        noise=len(result.within_margin),
        refused=len(result.refused),
        late=len(result.late),
        sandboxes=sandboxes,
    )
