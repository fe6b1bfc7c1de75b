"""One suspect answer looked into: confirmed by repetition, and told what it depends on.

A proof is a sequence that changes the answer every time it is played in a fresh sandbox. Chance and surroundings give
no such sequence: they leave a hint, and the rates decide (`rates`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.findings import FindingKind
from orchestrator.domain.rulings import FAULTED
from orchestrator.replay import shrinking
from orchestrator.replay.screening import Clash
from orchestrator.replay.sessions import Examination, Played, Purpose, Questions, Session, Trace, decision
from orchestrator.replay.shrinking import Context, deviates

BURST = 6
PAUSES = {BURST: 0.7, 2 * BURST: 1.1}
"""A suspect is asked in three bursts with these seconds between them."""
SANDBOXES = 3
LONGEST_WAIT = 60.0
"""Seconds that a suspect is left waiting at most."""


@dataclass(frozen=True, eq=False)
class Proof:
    """A sequence that changes an answer: its questions, the suspect's place in them, and what it is answered alone.

    `sessions` are the numbers of the sessions that show it; the last of them begins with the sequence.
    """

    kind: FindingKind
    session: Session
    place: int
    alone: int
    sessions: tuple[int, ...]


def investigate(trace: Trace, played: Played, clash: Clash) -> Examination[Proof | FindingKind | None]:
    """Returns a proof; the kind that the suspect's answers hint at; or None where nothing could be repeated."""
    suspect = np.array([[clash.cell, clash.picture]], np.int32)
    session = bursts(suspect, Purpose.REPEATED)
    patterns = []
    for _ in range(SANDBOXES):
        said = yield from trace.ask(session)
        patterns.append(said.answers)
    if not all(decision(int(answer)) for pattern in patterns for answer in pattern):
        return None
    if len({pattern.tobytes() for pattern in patterns}) > 1:
        return hint(patterns)
    alone = int(patterns[0][0])
    if (patterns[0] != alone).any():
        return (yield from _moved_by_itself(trace, suspect, patterns[0]))
    for context in _contexts(trace, played, clash, alone):
        if proof := (yield from _reproduce(trace, context)):
            return proof
    return None


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


def _moved_by_itself(
    trace: Trace, suspect: Questions, pattern: NDArray[np.int32]
) -> Examination[Proof | FindingKind | None]:
    """Every fresh sandbox changes its answer at the same place: by the count of questions, or by the pauses so far.

    Three sandboxes can agree by the time of day alone: what a run without pauses contradicts is a hint and no proof.
    """
    alone = int(pattern[0])
    place = int(np.flatnonzero(pattern != alone)[0])
    steady = yield from trace.ask(Session(Purpose.REPEATED, np.tile(suspect, (3 * BURST, 1))))
    bursts = tuple(range(trace.last - SANDBOXES, trace.last))
    if place in PAUSES and (steady.answers == alone).all():
        pauses = {at: seconds for at, seconds in PAUSES.items() if at <= place}
        waited = Session(Purpose.REPEATED, np.tile(suspect, (place + 1, 1)), pauses=pauses)
        return Proof(FindingKind.CLOCK, waited, place, alone, (trace.last, *bursts))
    if steady.answers[0] != alone or steady.answers[place] in (alone, FAULTED):
        return hint([pattern] * SANDBOXES)
    counted = Session(Purpose.REPEATED, np.tile(suspect, (place + 1, 1)))
    return Proof(FindingKind.STATE, counted, place, alone, (*bursts, trace.last))


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


def _reproduce(trace: Trace, context: Context) -> Examination[Proof | None]:
    """Plays a context twice more; what shows both times is shrunk to what it needs."""
    once = yield from deviates(trace, context, Purpose.CONTEXT)
    again = yield from deviates(trace, context, Purpose.CONTEXT)
    uptime = float(trace.played[trace.last][1].at[context.place])
    if not isfinite(uptime):  # it was not answered: nobody knows after how long it would have been
        return None
    if proof := (yield from _waited(trace, context, 1.2 * uptime + 0.3 if once and again else 2 * uptime + 2)):
        return proof
    if not (once and again):
        return None
    if context.batch > 1:
        outcome = yield from _company(trace, context)
        if outcome is None or isinstance(outcome, Proof):
            return outcome
        context = outcome
    return (yield from _shrunk(trace, context))


def _shrunk(trace: Trace, context: Context) -> Examination[Proof | None]:
    """Shrinks a context to what it needs, and plays that once more."""
    smallest = yield from shrinking.shrink(trace, context)
    if smallest is None:
        return None
    small = smallest.context
    if not (yield from deviates(trace, small)):
        return None
    session, _ = trace.played[trace.last]
    return Proof(smallest.kind, session, small.place, context.alone, (_repeated(trace), smallest.session, trace.last))


def _waited(trace: Trace, context: Context, seconds: float) -> Examination[Proof | None]:
    """Asks the suspect alone after a long silence, three times: what changes each time is changed by time.

    Twice could be chance. Where an answer varies by chance at the worst rate for this, one in 28, the bursts agree and
    two waits deviate once in 5000 times, three waits once in 100,000.
    """
    if context.batch > 1:
        return None
    wait = Session(Purpose.WAITED, context.last, pauses={0: min(seconds, LONGEST_WAIT)})
    for _ in range(SANDBOXES):
        said = yield from trace.ask(wait)
        if not decision(int(said.answers[0])) or said.answers[0] == context.alone:
            return None
    return Proof(FindingKind.CLOCK, wait, 0, context.alone, (_repeated(trace), trace.last))


def _company(trace: Trace, context: Context) -> Examination[Proof | Context | None]:
    """Tells the company of the suspect's own question from what was asked before.

    The shape of the question stays the same throughout: another shape alone may move an honest classifier's last bits.
    """
    batch, offset = context.batch, context.offset
    copies = Session(Purpose.SHRUNK, np.tile(context.last[offset], (len(context.last), 1)), batch)
    same = yield from trace.ask(copies)
    first = trace.last
    own = Session(Purpose.SHRUNK, context.last, batch)
    beside = yield from trace.ask(own)
    answers = {int(answer) for answer in same.answers}
    if not all(map(decision, (*answers, int(beside.answers[offset])))):
        return None  # a fault stands against no label
    if len(answers) > 1:
        place = int(np.flatnonzero(same.answers != same.answers[0])[0])
        return Proof(FindingKind.COMPANY, copies, place, int(same.answers[0]), (first,))
    (still,) = answers
    if beside.answers[offset] != still:
        return Proof(FindingKind.COMPANY, own, offset, still, (first, trace.last))
    if not (yield from deviates(trace, Context(context.units, context.last, offset, batch, still))):
        return None  # only the number of pictures in a question matters: the same for every picture and every time
    return Context(context.units, context.last, offset, batch, still)


def _repeated(trace: Trace) -> int:
    """Returns the number of the latest session that asked the suspect again and again: it says the answer alone."""
    numbers = [n for n, (session, _) in enumerate(trace.played) if session.purpose is Purpose.REPEATED]
    return numbers[-1]
