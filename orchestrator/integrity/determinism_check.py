"""The examination of one defence: planned replays, then, only where decisions clash, what it takes to be sure.

It is a generator: it yields the sessions it wants played and is sent what they said, so that it can be played in real
sandboxes, from a record, or in a simulation of thousands of rounds. The same answers always give the same verdict.
"""

from dataclasses import dataclass, field

import numpy as np

from orchestrator.domain.findings import FindingKind
from orchestrator.integrity import non_responses, power, rates, screening
from orchestrator.integrity.diagnosis import Proof, diagnose_mismatch
from orchestrator.integrity.non_responses import NonResponse
from orchestrator.integrity.power import ALPHA, SamplingDesign
from orchestrator.integrity.rates import DisagreementRate, DisagreementRates
from orchestrator.integrity.replay_session import DefencePlay, SessionGenerator, SessionTrace
from orchestrator.integrity.screening import Mismatch, ScreeningResult

MAX_SUSPECTS = 4
"""So many clashing questions are looked into."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the replays of one defence covered.

    `questions` were answered in play, `changed` of them would a cheat of the contest's size change; `drawn` were asked
    again and `decided` compared, with which such a cheat clashes with probability `achieved`. `asked` are all planned
    questions, companions included, and those asked again as in play; `compared` all pairs. `clashes` disagreed, `noise`
    more of them only within the floating-point margin that the defence claimed. `refused` were answered in play, and
    it ended or broke the protocol when they were asked again; `late` let the deadline pass then.
    """

    questions: int
    changed: int
    drawn: int
    decided: int
    achieved: float
    asked: int
    compared: int
    clashes: int
    noise: int
    refused: int
    late: int
    sandboxes: int


@dataclass(frozen=True, eq=False)
class Accusation:
    """What is held against a defence: a kind, and a proof or a rate. `sessions` show it."""

    kind: FindingKind
    sessions: tuple[int, ...]
    proof: Proof | None = None
    improbable: float | None = None
    rates: DisagreementRates | None = None


@dataclass(frozen=True, eq=False)
class DeterminismVerdict:
    """How an examination ended. Clashes without an accusation were not confirmed: they accuse nobody."""

    coverage: Coverage
    clashes: tuple[Mismatch, ...] = ()
    accusation: Accusation | None = None
    trace: SessionTrace = field(default_factory=SessionTrace)


def check_determinism(
    played: DefencePlay, design: SamplingDesign, chance: np.random.Generator
) -> SessionGenerator[DeterminismVerdict]:
    """Examines a defence by its play. `chance` is seeded by the round's secret: nobody foresees the sample."""
    trace, seen = SessionTrace(), ScreeningResult()
    if not len(played.decided) or not design.power:
        return DeterminismVerdict(_coverage(played, design, seen, 0), trace=trace)
    sample = screening.draw_sample(played, design, chance)
    seen.sample = frozenset((cell, picture) for cell, picture in sample.tolist())
    for session in screening.planned_sessions(played, sample, chance):
        said = yield from trace.ask(session)
        screening.compare_session(seen, played, trace.last, session, said)
    accusation = None
    if seen.missing:  # first: who refuses what is asked again would spoil whatever else is tried
        accusation = yield from _check_unanswered(trace, played, design, seen, chance)
    sandboxes = trace.last + 1
    if accusation is None and (seen.clashes or seen.noise):
        accusation = yield from _confirm(trace, played, design, seen, chance)
    return DeterminismVerdict(_coverage(played, design, seen, sandboxes), tuple(seen.clashes), accusation, trace)


def _check_unanswered(
    trace: SessionTrace, played: DefencePlay, design: SamplingDesign, seen: ScreeningResult, chance: np.random.Generator
) -> SessionGenerator[Accusation | None]:
    """Asks again what the planned replays were not answered; who does not answer a replay only is accused."""
    planned = non_responses.failed_too_often(trace, played, design, 0)
    leading = non_responses.failure_contexts(trace, played, 0, chance)
    if refusal := (yield from non_responses.ask_again_as_in_play(trace, played, design, seen, chance)):
        return _non_response_accusation(refusal)
    if not planned:
        return None
    return _non_response_accusation((yield from non_responses.compare_triggers(trace, played, design, leading, chance)))


def _confirm(
    trace: SessionTrace, played: DefencePlay, design: SamplingDesign, seen: ScreeningResult, chance: np.random.Generator
) -> SessionGenerator[Accusation | None]:
    """Looks into some of the clashes; a proof accuses, else the rates do, those of the planned replays among them."""
    screened = tuple(range(trace.last + 1))
    found = yield from _investigate_mismatches(trace, played, design, seen, chance)
    if isinstance(found, Accusation):
        return found
    first = trace.last + 1
    measured = yield from rates.measure_rates(trace, played, design, chance)
    if verdict := measured.verdict(design.noise):
        kind, improbable = verdict
        return Accusation(found or kind, (first, first + 1), improbable=improbable, rates=measured)
    improbable = _screening_p_value(seen, design)
    if improbable < ALPHA:
        return Accusation(found or FindingKind.INCONSISTENT, screened, improbable=improbable)
    if not non_responses.failed_too_often(trace, played, design, first):
        return None
    leading = non_responses.failure_contexts(trace, played, first, chance)
    return _non_response_accusation((yield from non_responses.compare_triggers(trace, played, design, leading, chance)))


def _investigate_mismatches(
    trace: SessionTrace, played: DefencePlay, design: SamplingDesign, seen: ScreeningResult, chance: np.random.Generator
) -> SessionGenerator[Accusation | FindingKind | None]:
    """Looks into some of the clashes; returns what a proof or a refusal accuses of, the kind hinted at, or None.

    Who claims to be on its boundary is believed as far as the contest's `noise` goes: the rates are measured all the
    same. With one picture a question a proof outweighs the claim, too: rounding gives no sequence that repeats.
    """
    suspects = [seen.clashes[place] for place in chance.permutation(len(seen.clashes))]
    if played.batch == 1:
        suspects += [seen.noise[place] for place in chance.permutation(len(seen.noise))]
    controlled = False
    for clash in suspects[:MAX_SUSPECTS]:
        first = trace.last + 1
        outcome = yield from diagnose_mismatch(trace, played, clash, chance)
        if isinstance(outcome, Proof):
            improbable = yield from _batch_p_value(trace, played, design, outcome, chance)
            if improbable is None or improbable < ALPHA:
                return Accusation(outcome.kind, outcome.sessions, proof=outcome, improbable=improbable)
        elif outcome is not None:
            return outcome
        if not controlled and non_responses.failed_too_often(trace, played, design, first):
            controlled = True
            provoking = non_responses.trigger_bursts(trace, played, first, chance)
            if refusal := (yield from non_responses.compare_triggers(trace, played, design, provoking, chance)):
                return _non_response_accusation(refusal)
    return None


def _screening_p_value(seen: ScreeningResult, design: SamplingDesign) -> float:
    """Returns how probable it is that so many questions of the planned replays disagree on an honest device."""
    rate = DisagreementRate(len(seen.differ), len(seen.alike))
    return rate.beyond(min(1.0, screening.MAX_COMPARISONS * design.noise))


def _batch_p_value(
    trace: SessionTrace, played: DefencePlay, design: SamplingDesign, proof: Proof, chance: np.random.Generator
) -> SessionGenerator[float | None]:
    """Returns, for a proof of company, how probable it is that last bits move as many answers; None for other kinds."""
    if proof.kind is not FindingKind.COMPANY:
        return None
    return (yield from rates.measure_batch_effect(trace, played, design, chance)).beyond(design.noise)


def _non_response_accusation(refusal: NonResponse | None) -> Accusation | None:
    if refusal is None:
        return None
    return Accusation(FindingKind.REFUSED, refusal.sessions, improbable=refusal.improbable)


def _coverage(played: DefencePlay, design: SamplingDesign, seen: ScreeningResult, sandboxes: int) -> Coverage:
    questions = len(played.decided)
    changed = power.changed_answer_count(questions, design.cheat) if questions else 0
    return Coverage(
        questions=questions,
        changed=changed,
        drawn=len(seen.sample),
        decided=len(seen.decided),
        achieved=power.mismatch_probability(questions, changed, len(seen.decided)) if seen.decided else 0.0,
        asked=seen.asked,
        compared=seen.compared,
        clashes=len(seen.clashes),
        noise=len(seen.noise),
        refused=len(seen.refused),
        late=len(seen.late),
        sandboxes=sandboxes,
    )
