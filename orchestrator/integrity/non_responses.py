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

from orchestrator.domain.outcomes import FAULTED
from orchestrator.integrity import screening
from orchestrator.integrity.power import ALPHA, SamplingDesign
from orchestrator.integrity.rates import DisagreementRate
from orchestrator.integrity.replay_session import (
    DefencePlay,
    ReplaySession,
    SessionAnswers,
    SessionGenerator,
    SessionPurpose,
    SessionTrace,
)
from orchestrator.integrity.screening import ScreeningResult

SESSION_PAIRS = 8
"""So many sessions that provoke are played, and as many calm ones: 8 failures against none have a probability of
1 in 12,870, which is below ALPHA; 7 against none have not."""
SUSPICION_LEVEL = 0.01
"""Failures that are less probable than that are looked into."""
MAX_ROUNDS = 3
"""So many times that is done at most, while the ones that provoke fail more often than the others."""
_COMPARED_PURPOSES = (SessionPurpose.PROVOKED, SessionPurpose.CALM)


@dataclass(frozen=True, slots=True)
class NonResponse:
    """What was refused again: the numbers of the sessions that show it, and how probable that is without intent."""

    sessions: tuple[int, ...]
    improbable: float


def ask_again_as_in_play(
    trace: SessionTrace, played: DefencePlay, design: SamplingDesign, seen: ScreeningResult, chance: np.random.Generator
) -> SessionGenerator[NonResponse | None]:
    """Asks what the planned replays were not answered again, as play asked it, and compares what is answered now."""
    questions = np.array(list(seen.missing), np.int32)
    first, refused = trace.last + 1, frozenset(seen.refused)
    put, failing, again = seen.compared + len(refused), tuple(sorted(seen.failing)), 0
    for session in list(screening.sessions_as_in_play(played, questions, chance)):
        said = yield from trace.ask(session)
        screening.compare_session(seen, played, trace.last, session, said)
        again += sum(tuple(question) in refused for question in session.questions[said.refused].tolist())
        if said.late.any() and not (said.answers > FAULTED).any():
            break  # it answers nothing any more, and each silence takes its time
    rate = DisagreementRate(again, put)
    improbable = max(rate.beyond(design.noise), rate.exceeds(_failure_rate_in_play(played)))
    return _significant((*failing, *range(first, trace.last + 1)), improbable)


def failed_too_often(trace: SessionTrace, played: DefencePlay, design: SamplingDesign, first: int) -> bool:
    """Returns whether the sessions from number `first` on failed so often that the cause is looked for.

    That is more often than noise allows and than play did, at `NOTICED`. It accuses nobody: `provoked` does.
    """
    rate = _failure_rate(played, trace.since(first))
    return max(rate.beyond(design.noise), rate.exceeds(_failure_rate_in_play(played))) < SUSPICION_LEVEL


def failure_contexts(
    trace: SessionTrace, played: DefencePlay, first: int, chance: np.random.Generator
) -> list[ReplaySession]:
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
    return [found[drawn[number % len(found)]] for number in range(SESSION_PAIRS)] if found else []


def compare_triggers(
    trace: SessionTrace,
    played: DefencePlay,
    design: SamplingDesign,
    provoking: Sequence[ReplaySession],
    chance: np.random.Generator,
) -> SessionGenerator[NonResponse | None]:
    """Plays sessions that provoke a failure, and as many calm ones, in an order that is drawn.

    So many more of the provoking ones have to fail, which is for who has some bad pictures, who crashes now and then,
    and a machine that is slow at times; and their questions more often than in play. Who fails some of them is asked
    more, up to `ROUNDS` times: so many tests there are at most.
    """
    first, longest = trace.last + 1, max((len(session.questions) for session in provoking), default=0)
    for _ in range(MAX_ROUNDS):
        everything = [*provoking, *(_control_session(played, longest, chance) for _ in provoking)]
        for place in chance.permutation(len(everything)):
            yield from trace.ask(everything[place])
        failed, others = (
            _session_failure_rate(played, _with_purpose(trace, first, purpose)) for purpose in _COMPARED_PURPOSES
        )
        questions = _failure_rate(played, _with_purpose(trace, first, SessionPurpose.PROVOKED))
        improbable = max(
            questions.beyond(design.noise), questions.exceeds(_failure_rate_in_play(played)), failed.exceeds(others)
        )
        if improbable < ALPHA:
            break
        if failed.disagreements <= others.disagreements:
            return None
    shown = [n for n in range(first, trace.last + 1) if trace.played[n][0].purpose is SessionPurpose.PROVOKED]
    return _significant(tuple(shown), improbable)


def _session_failure_rate(
    played: DefencePlay, sessions: Sequence[tuple[ReplaySession, SessionAnswers]]
) -> DisagreementRate:
    return DisagreementRate(sum(bool(_failure_rate(played, [each]).disagreements) for each in sessions), len(sessions))


def trigger_bursts(
    trace: SessionTrace, played: DefencePlay, first: int, chance: np.random.Generator
) -> list[ReplaySession]:
    """Returns sessions like those that failed most since number `first`, each with other pictures in it.

    A suspect may be a bad picture, and so may all suspects: what makes an answer vary may also make a player crash. So
    every question is replaced by another that was answered in play, and what was repeated stays repeated.
    """
    asked: dict[SessionPurpose, list[ReplaySession]] = {}
    failed: dict[SessionPurpose, list[ReplaySession]] = {}
    for session, said in trace.since(first):
        asked.setdefault(session.purpose, []).append(session)
        if said.failed.any():
            failed.setdefault(session.purpose, []).append(session)
    most = max(failed.values(), key=lambda sessions: len(sessions) / len(asked[sessions[0].purpose]))
    found = []
    for number in range(SESSION_PAIRS):
        session = most[number % len(most)]
        others = played.decided[chance.permutation(len(played.decided)), :2]
        _, inverse = np.unique(session.questions, axis=0, return_inverse=True)
        questions = others[np.ravel(inverse) % len(others)]
        found.append(ReplaySession(SessionPurpose.PROVOKED, questions, session.batch, session.pauses))
    return found


def _control_session(played: DefencePlay, length: int, chance: np.random.Generator) -> ReplaySession:
    """Returns as many questions as one sandbox of the play was asked them; where those are too few, others follow.

    First more of the same cell: a sandbox that ended early, or that was asked one question only. A session as long as
    the provoking ones is needed for who fails after so many questions.
    """
    start = int(chance.integers(len(played.sandboxes)))
    turned = [*played.sandboxes[start:], *played.sandboxes[:start]]
    cell = turned[0][0, 0]
    alike = sorted(turned, key=lambda rows: not played.mixed and rows[0, 0] != cell)
    whole = -(-length // played.batch) * played.batch
    return ReplaySession(SessionPurpose.CALM, np.concatenate(alike)[:whole, :2], played.batch)


def _cut(session: ReplaySession, start: int, end: int) -> ReplaySession:
    pauses = {place - start: seconds for place, seconds in session.pauses.items() if start <= place < end}
    return ReplaySession(SessionPurpose.PROVOKED, session.questions[start:end], session.batch, pauses)


def _with_purpose(
    trace: SessionTrace, first: int, purpose: SessionPurpose
) -> list[tuple[ReplaySession, SessionAnswers]]:
    return [each for each in trace.since(first) if each[0].purpose is purpose]


def _failure_rate_in_play(played: DefencePlay) -> DisagreementRate:
    charged = int((played.rows[:, 2] == FAULTED).sum())
    return DisagreementRate(charged + played.uncharged, len(played.rows) + played.uncharged)


def _failure_rate(played: DefencePlay, asked: Iterable[tuple[ReplaySession, SessionAnswers]]) -> DisagreementRate:
    """Returns how many questions that were answered in play failed, of all of these that were put."""
    failed = put = 0
    for session, said in asked:
        before: NDArray[np.bool_] = played.at(session.questions) > FAULTED
        failed += int((before & said.failed).sum())
        put += int((before & said.put).sum())
    return DisagreementRate(failed, put)


def _significant(sessions: tuple[int, ...], improbable: float) -> NonResponse | None:
    return NonResponse(sessions, improbable) if improbable < ALPHA else None
