"""Who ends itself, breaks the protocol or stalls instead of answering again, and when that accuses.

It never does at once: a defence may crash on a picture, or now and then, and has paid for that in play (A7); and a
deadline may pass because the machine is slow. So the same is asked both as a replay asks and as play asked, at the same
time, in an order that is drawn: what makes a defence fail has to be the way of asking. Only who ends itself or breaks
the protocol again when it is asked as in play is accused without that control: no slow machine does that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.rulings import FAULTED
from orchestrator.replay import screening
from orchestrator.replay.power import ALPHA, Design
from orchestrator.replay.rates import Rate
from orchestrator.replay.screening import Screened
from orchestrator.replay.sessions import Examination, Played, Purpose, Said, Session, Trace

PAIRS = 8
"""So many sessions that provoke are played, and as many calm ones: 8 failures against none have a probability of
1 in 12,870, which is below ALPHA; 7 against none have not."""
NOTICED = 0.01
"""Failures that are less probable than that are looked into."""
ROUNDS = 3
"""So many times that is done at most, while the ones that provoke fail more often than the others."""
_COMPARED = (Purpose.PROVOKED, Purpose.CALM)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was refused again: the numbers of the sessions that show it, and how probable that is without intent."""

    sessions: tuple[int, ...]
    improbable: float


def as_in_play(
    trace: Trace, played: Played, design: Design, seen: Screened, chance: np.random.Generator
) -> Examination[Refusal | None]:
    """Asks what the planned replays were not answered again, as play asked it, and compares what is answered now."""
    questions = np.array(list(seen.missing), np.int32)
    first, refused = trace.last + 1, frozenset(seen.refused)
    put, failing, again = seen.compared + len(refused), tuple(sorted(seen.failing)), 0
    for session in list(screening.as_in_play(played, questions, chance)):
        said = yield from trace.ask(session)
        screening.compare(seen, played, trace.last, session, said)
        again += sum(tuple(question) in refused for question in session.questions[said.refused].tolist())
        if said.late.any() and not (said.answers > FAULTED).any():
            break  # it answers nothing any more, and each silence takes its time
    rate = Rate(again, put)
    improbable = max(rate.beyond(design.noise), rate.exceeds(_in_play(played)))
    return _refusal((*failing, *range(first, trace.last + 1)), improbable)


def too_often(trace: Trace, played: Played, design: Design, first: int) -> bool:
    """Returns whether the sessions from number `first` on failed so often that the cause is looked for.

    That is more often than noise allows and than play did, at `NOTICED`. It accuses nobody: `provoked` does.
    """
    rate = _failed(played, trace.since(first))
    return max(rate.beyond(design.noise), rate.exceeds(_in_play(played))) < NOTICED


def contexts(trace: Trace, played: Played, first: int, chance: np.random.Generator) -> list[Session]:
    """Returns sessions that lead to failures of the sessions from number `first` on: each up to one, from its sandbox.

    A failure ends a sandbox: what counts towards it is what was asked since the one before.
    """
    found = []
    for session, said in trace.since(first):
        start = 0
        for place in np.flatnonzero(said.failed).tolist():
            if place < start:
                continue  # of the same question
            end = place - place % session.batch + session.batch
            if played.at(session.questions)[place] > FAULTED:
                found.append(_cut(session, start, end))
            start = end
    drawn = chance.permutation(len(found))
    return [found[drawn[number % len(found)]] for number in range(PAIRS)] if found else []


def provoked(
    trace: Trace, played: Played, design: Design, provoking: Sequence[Session], chance: np.random.Generator
) -> Examination[Refusal | None]:
    """Plays sessions that provoke a failure, and as many calm ones, in an order that is drawn.

    So many more of the provoking ones have to fail, which is for who has some bad pictures, who crashes now and then,
    and a machine that is slow at times; and their questions more often than in play. Who fails some of them is asked
    more, up to `ROUNDS` times: so many tests there are at most.
    """
    first, longest = trace.last + 1, max((len(session.questions) for session in provoking), default=0)
    for _ in range(ROUNDS):
        everything = [*provoking, *(_calm(played, longest, chance) for _ in provoking)]
        for place in chance.permutation(len(everything)):
            yield from trace.ask(everything[place])
        failed, others = (_sessions_failed(played, _of(trace, first, purpose)) for purpose in _COMPARED)
        questions = _failed(played, _of(trace, first, Purpose.PROVOKED))
        improbable = max(questions.beyond(design.noise), questions.exceeds(_in_play(played)), failed.exceeds(others))
        if improbable < ALPHA:
            break
        if failed.disagreements <= others.disagreements:
            return None
    shown = [n for n in range(first, trace.last + 1) if trace.played[n][0].purpose is Purpose.PROVOKED]
    return _refusal(tuple(shown), improbable)


def _sessions_failed(played: Played, sessions: Sequence[tuple[Session, Said]]) -> Rate:
    return Rate(sum(bool(_failed(played, [each]).disagreements) for each in sessions), len(sessions))


def bursts(trace: Trace, played: Played, first: int, chance: np.random.Generator) -> list[Session]:
    """Returns sessions like those that failed most since number `first`, each with other pictures in it.

    A suspect may be a bad picture, and so may all suspects: what makes an answer vary may also make a player crash. So
    every question is replaced by another that was answered in play, and what was repeated stays repeated.
    """
    asked: dict[Purpose, list[Session]] = {}
    failed: dict[Purpose, list[Session]] = {}
    for session, said in trace.since(first):
        asked.setdefault(session.purpose, []).append(session)
        if said.failed.any():
            failed.setdefault(session.purpose, []).append(session)
    most = max(failed.values(), key=lambda sessions: len(sessions) / len(asked[sessions[0].purpose]))
    found = []
    for number in range(PAIRS):
        session = most[number % len(most)]
        others = played.decided[chance.permutation(len(played.decided)), :2]
        _, inverse = np.unique(session.questions, axis=0, return_inverse=True)
        questions = others[np.ravel(inverse) % len(others)]
        found.append(Session(Purpose.PROVOKED, questions, session.batch, session.pauses))
    return found


def _calm(played: Played, length: int, chance: np.random.Generator) -> Session:
    """Returns as many questions as one sandbox of the play was asked them; where those are too few, others follow.

    First more of the same cell: a sandbox that ended early, or that was asked one question only. A session as long as
    the provoking ones is needed for who fails after so many questions.
    """
    start = int(chance.integers(len(played.sandboxes)))
    turned = [*played.sandboxes[start:], *played.sandboxes[:start]]
    cell = turned[0][0, 0]
    alike = sorted(turned, key=lambda rows: not played.mixed and rows[0, 0] != cell)
    whole = -(-length // played.batch) * played.batch
    return Session(Purpose.CALM, np.concatenate(alike)[:whole, :2], played.batch)


def _cut(session: Session, start: int, end: int) -> Session:
    pauses = {place - start: seconds for place, seconds in session.pauses.items() if start <= place < end}
    return Session(Purpose.PROVOKED, session.questions[start:end], session.batch, pauses)


def _of(trace: Trace, first: int, purpose: Purpose) -> list[tuple[Session, Said]]:
    return [each for each in trace.since(first) if each[0].purpose is purpose]


def _in_play(played: Played) -> Rate:
    charged = int((played.rows[:, 2] == FAULTED).sum())
    return Rate(charged + played.uncharged, len(played.rows) + played.uncharged)


def _failed(played: Played, asked: Iterable[tuple[Session, Said]]) -> Rate:
    """Returns how many questions that were answered in play failed, of all of these that were put."""
    failed = put = 0
    for session, said in asked:
        before: NDArray[np.bool_] = played.at(session.questions) > FAULTED
        failed += int((before & said.failed).sum())
        put += int((before & said.put).sum())
    return Rate(failed, put)


def _refusal(sessions: tuple[int, ...], improbable: float) -> Refusal | None:
    return Refusal(sessions, improbable) if improbable < ALPHA else None
