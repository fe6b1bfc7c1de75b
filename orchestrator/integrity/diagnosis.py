"""Diagnoses one suspect, a question with a mismatch: confirms it by repetition, and finds what its answer depends on.

A proof is a sequence that changes the answer every time it is played in a fresh sandbox, while a control, in another
sandbox with the same seed, gives the answer that the suspect gets alone. Chance and environment give no such sequence:
they leave a hint, and the rates decide (`disagreement_rates`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.findings import FindingKind
from orchestrator.integrity import minimise
from orchestrator.integrity.minimise import QuestionContext, deviates
from orchestrator.integrity.planned_replays import Mismatch
from orchestrator.integrity.replay_session import (
    DefencePlay,
    Questions,
    ReplaySession,
    SessionGenerator,
    SessionPurpose,
    SessionTrace,
    is_decision,
)

BURST_LENGTH = 6
BURST_PAUSES = {BURST_LENGTH: 0.7, 2 * BURST_LENGTH: 1.1}
"""A suspect is asked in three bursts with these seconds between them."""
BURST_SANDBOXES = 3
MAX_BURST_SANDBOXES = 2 * BURST_SANDBOXES
"""The most sandboxes asked in bursts, if some of them fail; if the first `BURST_SANDBOXES` all fail, no more."""
PROOF_PAIRS = 10
"""How many pairs of a sequence and its control have to differ, each pair with its own seed and in a random order. An
effect that a sandbox draws at its start passes as a proof at most once in 4**10 times; an effect of time, whatever its
period, once in 2**10."""
MAX_WAIT_SECONDS = 60.0
"""The longest silence before a suspect, in seconds."""


@dataclass(frozen=True, eq=False)
class Claim:
    """A claim to be proved: a sequence with the suspect at `position`, and a control with it at `control_position`."""

    kind: FindingKind
    session: ReplaySession
    position: int
    control: ReplaySession
    control_position: int = 0


@dataclass(frozen=True, eq=False)
class Proof:
    """A sequence that changes an answer: its questions, the suspect's position in them, and the suspect's answer alone.

    `sessions` are the numbers of the sessions that show it, pairs of control and sequence; the last is a sequence.
    """

    kind: FindingKind
    session: ReplaySession
    position: int
    answer_alone: int
    sessions: tuple[int, ...]


def diagnose_mismatch(
    trace: SessionTrace, play: DefencePlay, mismatch: Mismatch, rng: np.random.Generator
) -> SessionGenerator[Proof | FindingKind | None]:
    """Returns a proof, or the kind that the suspect's answers hint at, or None if nothing could be repeated."""
    suspect = np.array([[mismatch.cell, mismatch.picture]], np.int32)
    patterns = yield from _burst_patterns(trace, suspect)
    if len(patterns) < BURST_SANDBOXES:
        return None
    if len({pattern.tobytes() for pattern in patterns}) > 1:
        return hinted_kind(patterns)
    alone = int(patterns[0][0])
    if (patterns[0] != alone).any():
        claim = yield from _claim_from_pattern(trace, suspect, patterns[0])
        if isinstance(claim, FindingKind):
            return claim
        return (yield from prove_claim(trace, claim, rng)) or hinted_kind(patterns)
    for context in _contexts_of_mismatch(trace, play, mismatch, alone):
        for claim in (yield from _claims_from_context(trace, context)):
            if proof := (yield from prove_claim(trace, claim, rng)):
                return proof
    return None


def _burst_patterns(trace: SessionTrace, suspect: Questions) -> SessionGenerator[list[NDArray[np.int32]]]:
    """Asks a suspect in bursts; returns the answers of up to three sandboxes, those that answered every question."""
    patterns: list[NDArray[np.int32]] = []
    for tried in range(MAX_BURST_SANDBOXES):
        if len(patterns) == BURST_SANDBOXES or (tried >= BURST_SANDBOXES and not patterns):
            break
        answers = yield from trace.play_session(burst_session(suspect, SessionPurpose.BURSTS))
        if all(is_decision(int(label)) for label in answers.answers):
            patterns.append(answers.answers)
    return patterns


def prove_claim(trace: SessionTrace, claim: Claim, rng: np.random.Generator) -> SessionGenerator[Proof | None]:
    """Plays a sequence and its control in pairs that share a seed; returns the proof if every pair shows it.

    A pair in which one suspect is not answered is played again, up to `PROOF_PAIRS` times in all.
    """
    sessions: list[int] = []
    alone: int | None = None
    for _ in range(2 * PROOF_PAIRS):
        changed, control, numbers = yield from _play_pair(trace, claim, bool(rng.integers(2)))
        if not (is_decision(changed) and is_decision(control)):
            continue
        alone = control if alone is None else alone
        if control != alone or changed == control:
            return None
        sessions += numbers
        if len(sessions) == 2 * PROOF_PAIRS:
            return Proof(claim.kind, claim.session, claim.position, alone, tuple(sessions))
    return None


def _play_pair(
    trace: SessionTrace, claim: Claim, control_first: bool
) -> SessionGenerator[tuple[int, int, tuple[int, int]]]:
    """Returns the suspect's answers in the sequence and in the control, and the sessions of control and sequence."""
    first, second = (claim.control, claim.session) if control_first else (claim.session, claim.control)
    one = yield from trace.play_session(first)
    number = trace.last_number
    other = yield from trace.play_session(replace(second, same_seed_as=number))
    changed, control = (other, one) if control_first else (one, other)
    numbers = (number, number + 1) if control_first else (number + 1, number)
    return int(changed.answers[claim.position]), int(control.answers[claim.control_position]), numbers


def _control_session(question: Questions, batch: int = 1) -> ReplaySession:
    return ReplaySession(SessionPurpose.PROOF_CONTROL, question, batch)


def burst_session(question: Questions, purpose: SessionPurpose) -> ReplaySession:
    """Returns the session that asks one question [2] repeatedly, with silence between the bursts."""
    return ReplaySession(purpose, np.tile(question, (3 * BURST_LENGTH, 1)), pauses=BURST_PAUSES)


def hinted_kind(patterns: list[NDArray[np.int32]]) -> FindingKind:
    """Returns the kind by what differs: answers in one burst (chance), bursts (clock), or sandboxes (environment)."""
    within = across = 0
    for pattern in patterns:
        changes = np.flatnonzero(np.diff(pattern)) + 1
        at_pauses = int(np.isin(changes, list(BURST_PAUSES)).sum())
        across, within = across + at_pauses, within + len(changes) - at_pauses
    if within <= 1 and across > 1:
        return FindingKind.CLOCK
    return FindingKind.CHANCE if within or across else FindingKind.ENVIRONMENT


def _claim_from_pattern(
    trace: SessionTrace, suspect: Questions, pattern: NDArray[np.int32]
) -> SessionGenerator[Claim | FindingKind]:
    """Returns the claim for a pattern in which every fresh sandbox changes its answer at the same place.

    The cause is the count of questions, or the pauses so far. Three sandboxes can agree by the time of day alone: if a
    session without pauses contradicts the pattern, it is a hint and no proof, and the hinted kind is returned.
    """
    alone = int(pattern[0])
    place = int(np.flatnonzero(pattern != alone)[0])
    steady = yield from trace.play_session(
        ReplaySession(SessionPurpose.BURSTS, np.tile(suspect, (3 * BURST_LENGTH, 1)))
    )
    if place in BURST_PAUSES and (steady.answers == alone).all():
        pauses = {at: seconds for at, seconds in BURST_PAUSES.items() if at <= place}
        waited = ReplaySession(SessionPurpose.PROOF, np.tile(suspect, (place + 1, 1)), pauses=pauses)
        return Claim(FindingKind.CLOCK, waited, place, _control_session(suspect))
    if steady.answers[0] != alone or not is_decision(int(steady.answers[place])) or steady.answers[place] == alone:
        return hinted_kind([pattern] * BURST_SANDBOXES)
    counted = ReplaySession(SessionPurpose.PROOF, np.tile(suspect, (place + 1, 1)))
    return Claim(FindingKind.STATE, counted, place, _control_session(suspect))


def _contexts_of_mismatch(
    trace: SessionTrace, play: DefencePlay, mismatch: Mismatch, alone: int
) -> Iterator[QuestionContext]:
    """Yields the contexts in which the suspect's answer differs from that alone: in the replay, then in the play."""
    question = [mismatch.cell, mismatch.picture]
    session, session_answers = trace.sessions[mismatch.session]
    question_lists = [(session.questions, session_answers.answers, session.batch)]
    question_lists += [(rows[:, :2], rows[:, 2], play.batch) for rows in play.sandboxes]
    for questions, answers, batch in question_lists:
        for place in np.flatnonzero((questions == question).all(axis=1)).tolist():
            if is_decision(int(answers[place])) and answers[place] != alone:
                yield _context_at(questions, place, batch, alone)


def _context_at(questions: Questions, place: int, batch: int, alone: int) -> QuestionContext:
    start = place - place % batch
    units = tuple(questions[at : at + batch] for at in range(0, start, batch))
    return QuestionContext(units, questions[start : start + batch], place - start, batch, alone)


def _claims_from_context(trace: SessionTrace, context: QuestionContext) -> SessionGenerator[list[Claim]]:
    """Plays a context twice more; returns the claims about its cause, to be proved in this order.

    Time comes first: if waiting alone changes the answer, no questions are needed. A context that changes the answer
    both times is reduced to the questions that it needs.
    """
    once = yield from deviates(trace, context, SessionPurpose.CONTEXT)
    again = yield from deviates(trace, context, SessionPurpose.CONTEXT)
    uptime = float(trace.sessions[trace.last_number][1].answer_times[context.position])
    if not isfinite(uptime):  # the suspect was not answered, so the time of its answer is unknown
        return []
    waited = yield from _delay_claim(trace, context, 1.2 * uptime + 0.3 if once and again else 2 * uptime + 2)
    claims = [] if waited is None else [waited]
    if not (once and again):
        return claims
    if context.batch > 1:
        outcome = yield from _batch_claim(trace, context)
        if outcome is None:
            return claims
        if isinstance(outcome, Claim):
            return [*claims, outcome]
        context = outcome
    shrunk = yield from _minimised_claim(trace, context)
    return claims if shrunk is None else [*claims, shrunk]


def _minimised_claim(trace: SessionTrace, context: QuestionContext) -> SessionGenerator[Claim | None]:
    """Returns the claim for the smallest part of a context that still changes the answer, or None."""
    smallest = yield from minimise.minimise_context(trace, context)
    if smallest is None:
        return None
    small = smallest.context
    session = ReplaySession(SessionPurpose.PROOF, small.questions, small.batch)
    return Claim(smallest.kind, session, small.position, _control_session(small.last_unit, small.batch), small.offset)


def _delay_claim(trace: SessionTrace, context: QuestionContext, seconds: float) -> SessionGenerator[Claim | None]:
    """Asks the suspect alone after a long silence; returns the claim that time changes its answer, or None."""
    if context.batch > 1:
        return None
    pauses = {0: min(seconds, MAX_WAIT_SECONDS)}
    answers = yield from trace.play_session(ReplaySession(SessionPurpose.DELAY, context.last_unit, pauses=pauses))
    if not is_decision(int(answers.answers[0])) or answers.answers[0] == context.answer_alone:
        return None
    return Claim(
        FindingKind.CLOCK,
        ReplaySession(SessionPurpose.PROOF, context.last_unit, pauses=pauses),
        0,
        _control_session(context.last_unit),
    )


def _batch_claim(trace: SessionTrace, context: QuestionContext) -> SessionGenerator[Claim | QuestionContext | None]:
    """Tests whether the other pictures of the suspect's own question change its answer, or the questions before.

    Returns the claim for the former, the context for the latter. Every question keeps its shape, because another shape
    alone may change an honest classifier's last bits.
    """
    batch, offset = context.batch, context.offset
    same = np.tile(context.last_unit[offset], (len(context.last_unit), 1))
    copies = yield from trace.play_session(ReplaySession(SessionPurpose.MINIMISE, same, batch))
    beside = yield from trace.play_session(ReplaySession(SessionPurpose.MINIMISE, context.last_unit, batch))
    answers = {int(answer) for answer in copies.answers}
    if not all(map(is_decision, (*answers, int(beside.answers[offset])))):
        return None  # a fault cannot be compared with a label
    control = ReplaySession(SessionPurpose.PROOF_CONTROL, same, batch)
    if len(answers) > 1:
        place = int(np.flatnonzero(copies.answers != copies.answers[0])[0])
        return Claim(FindingKind.COMPANY, ReplaySession(SessionPurpose.PROOF, same, batch), place, control)
    (still,) = answers
    if beside.answers[offset] != still:
        return Claim(
            FindingKind.COMPANY, ReplaySession(SessionPurpose.PROOF, context.last_unit, batch), offset, control, offset
        )
    if not (yield from deviates(trace, QuestionContext(context.units, context.last_unit, offset, batch, still))):
        return None  # only the number of pictures in a question matters, in the same way for every picture
    return QuestionContext(context.units, context.last_unit, offset, batch, still)
