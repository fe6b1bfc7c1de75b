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
from orchestrator.integrity import planned_replays
from orchestrator.integrity.disagreement_rates import DisagreementRate
from orchestrator.integrity.planned_replays import ScreeningResult
from orchestrator.integrity.power import ALPHA, SamplingDesign
from orchestrator.integrity.replay_session import (
    DefencePlay,
    ReplaySession,
    SessionAnswers,
    SessionGenerator,
    SessionPurpose,
    SessionTrace,
)

SESSION_PAIRS = 8
"""So many sessions that provoke are played, and as many calm ones: 8 failures against none have a probability of
1 in 12,870, which is below ALPHA; 7 against none have not."""
SUSPICION_LEVEL = 0.01
"""Failures that are less probable than that are looked into."""
MAX_ROUNDS = 3
"""So many times that is done at most, while the ones that provoke fail more often than the others."""
_COMPARED_PURPOSES = (SessionPurpose.TRIGGER, SessionPurpose.TRIGGER_CONTROL)


@dataclass(frozen=True, slots=True)
class NonResponse:
    """What was refused again: the numbers of the sessions that show it, and how probable that is without intent."""

    sessions: tuple[int, ...]
    p_value: float


def ask_again_as_in_play(
    trace: SessionTrace, play: DefencePlay, design: SamplingDesign, result: ScreeningResult, rng: np.random.Generator
) -> SessionGenerator[NonResponse | None]:
    """Asks what the planned replays were not answered again, as play asked it, and compares what is answered now."""
    questions = np.array(list(result.undecided), np.int32)
    first, refused = trace.last_number + 1, frozenset(result.refused)
    asked_count, failing, again = result.compared_count + len(refused), tuple(sorted(result.failing_sessions)), 0
    for session in list(planned_replays.sessions_as_in_play(play, questions, rng)):
        answers = yield from trace.play_session(session)
        planned_replays.compare_session(result, play, trace.last_number, session, answers)
        again += sum(tuple(question) in refused for question in session.questions[answers.refused].tolist())
        if answers.late.any() and not (answers.answers > FAULTED).any():
            break  # it answers nothing any more, and each silence takes its time
    rate = DisagreementRate(again, asked_count)
    improbable = max(rate.p_above_noise(design.noise), rate.p_above_rate(_failure_rate_in_play(play)))
    return _significant((*failing, *range(first, trace.last_number + 1)), improbable)


def failed_too_often(trace: SessionTrace, play: DefencePlay, design: SamplingDesign, first: int) -> bool:
    """Returns whether the sessions from number `first` on failed so often that the cause is looked for.

    That is more often than noise allows and than play did, at `SUSPICION_LEVEL`. It accuses nobody: `provoked` does.
    """
    rate = _failure_rate(play, trace.sessions_since(first))
    return max(rate.p_above_noise(design.noise), rate.p_above_rate(_failure_rate_in_play(play))) < SUSPICION_LEVEL


def failure_contexts(
    trace: SessionTrace, play: DefencePlay, first: int, rng: np.random.Generator
) -> list[ReplaySession]:
    """Returns sessions that lead to failures of the sessions from number `first` on: each up to one, from its sandbox.

    A failure ends a sandbox: what counts towards it is what was asked since the one before.
    """
    sessions = []
    for session, answers in trace.sessions_since(first):
        start = 0
        for place in np.flatnonzero(answers.failed_mask).tolist():
            if place < start:
                continue  # of the same question
            end = place - place % session.batch + session.batch
            if play.answers_to(session.questions)[place] > FAULTED:
                sessions.append(_cut(session, start, end))
            start = end
    drawn = rng.permutation(len(sessions))
    return [sessions[drawn[number % len(sessions)]] for number in range(SESSION_PAIRS)] if sessions else []


def compare_triggers(
    trace: SessionTrace,
    play: DefencePlay,
    design: SamplingDesign,
    provoking: Sequence[ReplaySession],
    rng: np.random.Generator,
) -> SessionGenerator[NonResponse | None]:
    """Plays sessions that provoke a failure, and as many calm ones, in an order that is drawn.

    So many more of the provoking ones have to fail, which is for who has some bad pictures, who crashes now and then,
    and a machine that is slow at times; and their questions more often than in play. Who fails some of them is asked
    more, up to `MAX_ROUNDS` times: so many tests there are at most.
    """
    first, longest = trace.last_number + 1, max((len(session.questions) for session in provoking), default=0)
    for _ in range(MAX_ROUNDS):
        everything = [*provoking, *(_control_session(play, longest, rng) for _ in provoking)]
        for place in rng.permutation(len(everything)):
            yield from trace.play_session(everything[place])
        failed, others = (
            _session_failure_rate(play, _with_purpose(trace, first, purpose)) for purpose in _COMPARED_PURPOSES
        )
        questions = _failure_rate(play, _with_purpose(trace, first, SessionPurpose.TRIGGER))
        improbable = max(
            questions.p_above_noise(design.noise),
            questions.p_above_rate(_failure_rate_in_play(play)),
            failed.p_above_rate(others),
        )
        if improbable < ALPHA:
            break
        if failed.disagreements <= others.disagreements:
            return None
    trigger_sessions = [
        n for n in range(first, trace.last_number + 1) if trace.sessions[n][0].purpose is SessionPurpose.TRIGGER
    ]
    return _significant(tuple(trigger_sessions), improbable)


def _session_failure_rate(
    play: DefencePlay, sessions: Sequence[tuple[ReplaySession, SessionAnswers]]
) -> DisagreementRate:
    return DisagreementRate(sum(bool(_failure_rate(play, [each]).disagreements) for each in sessions), len(sessions))


def trigger_bursts(trace: SessionTrace, play: DefencePlay, first: int, rng: np.random.Generator) -> list[ReplaySession]:
    """Returns sessions like those that failed most since number `first`, each with other pictures in it.

    A suspect may be a bad picture, and so may all suspects: what makes an answer vary may also make a player crash. So
    every question is replaced by another that was answered in play, and what was repeated stays repeated.
    """
    sessions_by_purpose: dict[SessionPurpose, list[ReplaySession]] = {}
    failed: dict[SessionPurpose, list[ReplaySession]] = {}
    for session, answers in trace.sessions_since(first):
        sessions_by_purpose.setdefault(session.purpose, []).append(session)
        if answers.failed_mask.any():
            failed.setdefault(session.purpose, []).append(session)
    most = max(failed.values(), key=lambda sessions: len(sessions) / len(sessions_by_purpose[sessions[0].purpose]))
    bursts = []
    for number in range(SESSION_PAIRS):
        session = most[number % len(most)]
        others = play.decided_rows[rng.permutation(len(play.decided_rows)), :2]
        _, inverse = np.unique(session.questions, axis=0, return_inverse=True)
        questions = others[np.ravel(inverse) % len(others)]
        bursts.append(ReplaySession(SessionPurpose.TRIGGER, questions, session.batch, session.pauses))
    return bursts


def _control_session(play: DefencePlay, length: int, rng: np.random.Generator) -> ReplaySession:
    """Returns as many questions as one sandbox of the play was asked them; where those are too few, others follow.

    First more of the same cell: a sandbox that ended early, or that was asked one question only. A session as long as
    the provoking ones is needed for who fails after so many questions.
    """
    start = int(rng.integers(len(play.sandboxes)))
    turned = [*play.sandboxes[start:], *play.sandboxes[:start]]
    cell = turned[0][0, 0]
    alike = sorted(turned, key=lambda rows: not play.mixes_versions and rows[0, 0] != cell)
    rounded_length = -(-length // play.batch) * play.batch
    return ReplaySession(SessionPurpose.TRIGGER_CONTROL, np.concatenate(alike)[:rounded_length, :2], play.batch)


def _cut(session: ReplaySession, start: int, end: int) -> ReplaySession:
    pauses = {place - start: seconds for place, seconds in session.pauses.items() if start <= place < end}
    return ReplaySession(SessionPurpose.TRIGGER, session.questions[start:end], session.batch, pauses)


def _with_purpose(
    trace: SessionTrace, first: int, purpose: SessionPurpose
) -> list[tuple[ReplaySession, SessionAnswers]]:
    return [each for each in trace.sessions_since(first) if each[0].purpose is purpose]


def _failure_rate_in_play(play: DefencePlay) -> DisagreementRate:
    charged = int((play.rows[:, 2] == FAULTED).sum())
    return DisagreementRate(charged + play.uncharged_pictures, len(play.rows) + play.uncharged_pictures)


def _failure_rate(play: DefencePlay, sessions: Iterable[tuple[ReplaySession, SessionAnswers]]) -> DisagreementRate:
    """Returns how many questions that were answered in play failed, of all of these that were put."""
    failed = asked_count = 0
    for session, answers in sessions:
        before: NDArray[np.bool_] = play.answers_to(session.questions) > FAULTED
        failed += int((before & answers.failed_mask).sum())
        asked_count += int((before & answers.asked_mask).sum())
    return DisagreementRate(failed, asked_count)


def _significant(sessions: tuple[int, ...], improbable: float) -> NonResponse | None:
    return NonResponse(sessions, improbable) if improbable < ALPHA else None
