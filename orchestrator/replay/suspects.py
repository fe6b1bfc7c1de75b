"""One suspect answer looked into: confirmed by repetition, and told what it depends on.

A proof is a sequence that changes the answer every time it is played in a fresh sandbox, while a control, in another
sandbox that is told the same seed, gives the answer that the suspect gets alone. Chance and surroundings give no such
sequence: they leave a hint, and the rates decide (`rates`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.findings import FindingKind
from orchestrator.replay import shrinking
from orchestrator.replay.screening import Clash
from orchestrator.replay.sessions import Examination, Played, Purpose, Questions, Session, Trace, decision
from orchestrator.replay.shrinking import Context, deviates

BURST = 6
PAUSES = {BURST: 0.7, 2 * BURST: 1.1}
"""A suspect is asked in three bursts with these seconds between them."""
SANDBOXES = 3
TRIES = 2 * SANDBOXES
"""So many sandboxes are asked in bursts at most, where some of them fail; `SANDBOXES` where all of these do."""
PAIRS = 10
"""So many times a sequence and its control have to differ, each pair with a seed of its own and in an order that is
drawn. What a sandbox draws when it starts passes for a proof once in 4**10 times at most; what time does, whatever its
period, once in 2**10."""
LONGEST_WAIT = 60.0
"""Seconds that a suspect is left waiting at most."""


@dataclass(frozen=True, eq=False)
class Claim:
    """What is to be proved: a sequence with the suspect at a place, and the control with the suspect at a place."""

    kind: FindingKind
    session: Session
    place: int
    control: Session
    control_place: int = 0


@dataclass(frozen=True, eq=False)
class Proof:
    """A sequence that changes an answer: its questions, the suspect's place in them, and what it is answered alone.

    `sessions` are the numbers of the sessions that show it, pairs of control and sequence; the last is a sequence.
    """

    kind: FindingKind
    session: Session
    place: int
    alone: int
    sessions: tuple[int, ...]


def investigate(
    trace: Trace, played: Played, clash: Clash, chance: np.random.Generator
) -> Examination[Proof | FindingKind | None]:
    """Returns a proof; the kind that the suspect's answers hint at; or None where nothing could be repeated."""
    suspect = np.array([[clash.cell, clash.picture]], np.int32)
    patterns = yield from _patterns(trace, suspect)
    if len(patterns) < SANDBOXES:
        return None
    if len({pattern.tobytes() for pattern in patterns}) > 1:
        return hint(patterns)
    alone = int(patterns[0][0])
    if (patterns[0] != alone).any():
        claim = yield from _moved_by_itself(trace, suspect, patterns[0])
        if isinstance(claim, FindingKind):
            return claim
        return (yield from proved(trace, claim, chance)) or hint(patterns)
    for context in _contexts(trace, played, clash, alone):
        for claim in (yield from _claims(trace, context)):
            if proof := (yield from proved(trace, claim, chance)):
                return proof
    return None


def _patterns(trace: Trace, suspect: Questions) -> Examination[list[NDArray[np.int32]]]:
    """Asks a suspect in bursts, in three sandboxes that answer everything: another one for each that does not."""
    patterns: list[NDArray[np.int32]] = []
    for tried in range(TRIES):
        if len(patterns) == SANDBOXES or (tried >= SANDBOXES and not patterns):
            break
        said = yield from trace.ask(bursts(suspect, Purpose.REPEATED))
        if all(decision(int(answer)) for answer in said.answers):
            patterns.append(said.answers)
    return patterns


def proved(trace: Trace, claim: Claim, chance: np.random.Generator) -> Examination[Proof | None]:
    """Plays a sequence and its control in pairs with one seed each; returns the proof where every pair shows it.

    A pair in which one is not answered is played again, as often as there are pairs.
    """
    shown: list[int] = []
    alone: int | None = None
    for _ in range(2 * PAIRS):
        changed, control, numbers = yield from _pair(trace, claim, bool(chance.integers(2)))
        if not (decision(changed) and decision(control)):
            continue
        alone = control if alone is None else alone
        if control != alone or changed == control:
            return None
        shown += numbers
        if len(shown) == 2 * PAIRS:
            return Proof(claim.kind, claim.session, claim.place, alone, tuple(shown))
    return None


def _pair(trace: Trace, claim: Claim, control_first: bool) -> Examination[tuple[int, int, tuple[int, int]]]:
    """Returns the suspect's answers in the sequence and in the control, and their sessions: the control's first."""
    first, second = (claim.control, claim.session) if control_first else (claim.session, claim.control)
    one = yield from trace.ask(first)
    number = trace.last
    other = yield from trace.ask(replace(second, seed_of=number))
    said, control = (other, one) if control_first else (one, other)
    numbers = (number, number + 1) if control_first else (number + 1, number)
    return int(said.answers[claim.place]), int(control.answers[claim.control_place]), numbers


def _alone(question: Questions, batch: int = 1) -> Session:
    return Session(Purpose.PROOF_CONTROL, question, batch)


def bursts(question: Questions, purpose: Purpose) -> Session:
    """Returns the session that asks one question [2] again and again, with silence between the bursts."""
    return Session(purpose, np.tile(question, (3 * BURST, 1)), pauses=PAUSES)


def hint(patterns: list[NDArray[np.int32]]) -> FindingKind:
    """Returns what differs: answers of one burst (chance), of bursts (clock), or of sandboxes only (environment)."""
    within = across = 0
    for pattern in patterns:
        changes = np.flatnonzero(np.diff(pattern)) + 1
        across += int(np.isin(changes, list(PAUSES)).sum())
        within += len(changes) - int(np.isin(changes, list(PAUSES)).sum())
    if within <= 1 and across > 1:
        return FindingKind.CLOCK
    return FindingKind.CHANCE if within or across else FindingKind.ENVIRONMENT


def _moved_by_itself(trace: Trace, suspect: Questions, pattern: NDArray[np.int32]) -> Examination[Claim | FindingKind]:
    """Every fresh sandbox changes its answer at the same place: by the count of questions, or by the pauses so far.

    Three sandboxes can agree by the time of day alone: what a run without pauses contradicts is a hint and no proof.
    """
    alone = int(pattern[0])
    place = int(np.flatnonzero(pattern != alone)[0])
    steady = yield from trace.ask(Session(Purpose.REPEATED, np.tile(suspect, (3 * BURST, 1))))
    if place in PAUSES and (steady.answers == alone).all():
        pauses = {at: seconds for at, seconds in PAUSES.items() if at <= place}
        waited = Session(Purpose.PROOF, np.tile(suspect, (place + 1, 1)), pauses=pauses)
        return Claim(FindingKind.CLOCK, waited, place, _alone(suspect))
    if steady.answers[0] != alone or not decision(int(steady.answers[place])) or steady.answers[place] == alone:
        return hint([pattern] * SANDBOXES)
    counted = Session(Purpose.PROOF, np.tile(suspect, (place + 1, 1)))
    return Claim(FindingKind.STATE, counted, place, _alone(suspect))


def _contexts(trace: Trace, played: Played, clash: Clash, alone: int) -> Iterator[Context]:
    """Yields where the suspect was answered otherwise than alone: in the replay, then in the play."""
    question = [clash.cell, clash.picture]
    session, said = trace.played[clash.session]
    asked = [(session.questions, said.answers, session.batch)]
    asked += [(rows[:, :2], rows[:, 2], played.batch) for rows in played.sandboxes]
    for questions, answers, batch in asked:
        for place in np.flatnonzero((questions == question).all(axis=1)).tolist():
            if decision(int(answers[place])) and answers[place] != alone:
                yield _context(questions, place, batch, alone)


def _context(questions: Questions, place: int, batch: int, alone: int) -> Context:
    start = place - place % batch
    units = tuple(questions[at : at + batch] for at in range(0, start, batch))
    return Context(units, questions[start : start + batch], place - start, batch, alone)


def _claims(trace: Trace, context: Context) -> Examination[list[Claim]]:
    """Plays a context twice more; returns what may be the cause, to be proved in this order.

    Time comes first: what waiting alone changes needs no questions. What shows both times is shrunk to what it needs.
    """
    once = yield from deviates(trace, context, Purpose.CONTEXT)
    again = yield from deviates(trace, context, Purpose.CONTEXT)
    uptime = float(trace.played[trace.last][1].at[context.place])
    if not isfinite(uptime):  # it was not answered: nobody knows after how long it would have been
        return []
    waited = yield from _waited(trace, context, 1.2 * uptime + 0.3 if once and again else 2 * uptime + 2)
    found = [] if waited is None else [waited]
    if not (once and again):
        return found
    if context.batch > 1:
        outcome = yield from _company(trace, context)
        if outcome is None:
            return found
        if isinstance(outcome, Claim):
            return [*found, outcome]
        context = outcome
    shrunk = yield from _shrunk(trace, context)
    return found if shrunk is None else [*found, shrunk]


def _shrunk(trace: Trace, context: Context) -> Examination[Claim | None]:
    """Shrinks a context to what it needs."""
    smallest = yield from shrinking.shrink(trace, context)
    if smallest is None:
        return None
    small = smallest.context
    session = Session(Purpose.PROOF, small.questions, small.batch)
    return Claim(smallest.kind, session, small.place, _alone(small.last, small.batch), small.offset)


def _waited(trace: Trace, context: Context, seconds: float) -> Examination[Claim | None]:
    """Asks the suspect alone after a long silence: whether that changes it as well."""
    if context.batch > 1:
        return None
    pauses = {0: min(seconds, LONGEST_WAIT)}
    said = yield from trace.ask(Session(Purpose.WAITED, context.last, pauses=pauses))
    if not decision(int(said.answers[0])) or said.answers[0] == context.alone:
        return None
    return Claim(FindingKind.CLOCK, Session(Purpose.PROOF, context.last, pauses=pauses), 0, _alone(context.last))


def _company(trace: Trace, context: Context) -> Examination[Claim | Context | None]:
    """Tells the company of the suspect's own question from what was asked before.

    The shape of the question stays the same throughout: another shape alone may move an honest classifier's last bits.
    """
    batch, offset = context.batch, context.offset
    same = np.tile(context.last[offset], (len(context.last), 1))
    copies = yield from trace.ask(Session(Purpose.SHRUNK, same, batch))
    beside = yield from trace.ask(Session(Purpose.SHRUNK, context.last, batch))
    answers = {int(answer) for answer in copies.answers}
    if not all(map(decision, (*answers, int(beside.answers[offset])))):
        return None  # a fault stands against no label
    control = Session(Purpose.PROOF_CONTROL, same, batch)
    if len(answers) > 1:
        place = int(np.flatnonzero(copies.answers != copies.answers[0])[0])
        return Claim(FindingKind.COMPANY, Session(Purpose.PROOF, same, batch), place, control)
    (still,) = answers
    if beside.answers[offset] != still:
        return Claim(FindingKind.COMPANY, Session(Purpose.PROOF, context.last, batch), offset, control, offset)
    if not (yield from deviates(trace, Context(context.units, context.last, offset, batch, still))):
        return None  # only the number of pictures in a question matters: the same for every picture and every time
    return Context(context.units, context.last, offset, batch, still)
