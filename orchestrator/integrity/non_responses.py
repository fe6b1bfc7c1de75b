"""Decides when a defence is accused that ends, breaks the protocol or stalls instead of answering a question again.

A failure alone never accuses: a defence may crash on a picture, or now and then, and has paid for that in play (A7);
and a deadline may pass because the machine is slow. So questions are asked both as in the replay and as in play, at
the same time, in a random order: only the way of asking may be the cause of the failures. A defence is accused without
that control only if it ends or breaks the protocol again when it is asked as in play, which no slow machine causes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.outcomes import FAULTED
from orchestrator.integrity import planned_replays
from orchestrator.integrity.detection_power import ALPHA, SamplingDesign, round_up
from orchestrator.integrity.disagreement_rates import DisagreementRate
from orchestrator.integrity.planned_replays import ScreeningResult
from orchestrator.integrity.replay_session import (
    DefencePlay,
    ReplaySession,
    SessionAnswers,
    SessionGenerator,
    SessionPurpose,
    SessionTrace,
)

SESSION_PAIRS = 8
"""How many `TRIGGER` sessions are played, and as many controls: 8 failures against none have a probability of
1 in 12,870, which is below ALPHA; 7 against none have a higher one."""
SUSPICION_LEVEL = 0.01
"""Failures that are less probable than this are investigated."""
MAX_ROUNDS = 3
"""How many times the pairs are played at most, while `TRIGGER` sessions fail more often than their controls."""
_COMPARED_PURPOSES = (SessionPurpose.TRIGGER, SessionPurpose.TRIGGER_CONTROL)


@dataclass(frozen=True, slots=True)
class NonResponse:
    """A significant refusal: the numbers of the sessions that show it, and its probability without intent."""

    sessions: tuple[int, ...]
    p_value: float


def ask_again_as_in_play(
    trace: SessionTrace, play: DefencePlay, design: SamplingDesign, result: ScreeningResult, rng: np.random.Generator
) -> SessionGenerator[NonResponse | None]:
    """Asks the unanswered questions of the planned replays again as in play, and compares the answers with the play."""
    questions = np.array(list(result.undecided), np.int32)
    first, refused = trace.last_number + 1, frozenset(result.refused)
    asked_count, failing, again = result.compared_count + len(refused), tuple(sorted(result.failing_sessions)), 0
    for session in list(planned_replays.sessions_as_in_play(play, questions, rng)):
        answers = yield from trace.play_session(session)
        planned_replays.compare_session(result, play, trace.last_number, session, answers)
        again += sum(tuple(question) in refused for question in session.questions[answers.refused].tolist())
        if answers.late.any() and not (answers.answers > FAULTED).any():
            break  # the defence answers nothing any more, and each deadline takes time
    rate = DisagreementRate(again, asked_count)
    improbable = max(rate.p_above_noise(design.noise), rate.p_above_rate(_failure_rate_in_play(play)))
    return _significant((*failing, *range(first, trace.last_number + 1)), improbable)


def failed_too_often(trace: SessionTrace, play: DefencePlay, design: SamplingDesign, first: int) -> bool:
    """Returns whether the sessions from number `first` on failed so often that the cause is investigated.

    That is more often than noise explains and more often than in play, at `SUSPICION_LEVEL`. This accuses nobody;
    `compare_triggers` does.
    """
    rate = _failure_rate(play, trace.sessions_since(first))
    return max(rate.p_above_noise(design.noise), rate.p_above_rate(_failure_rate_in_play(play))) < SUSPICION_LEVEL


def failure_contexts(
    trace: SessionTrace, play: DefencePlay, first: int, rng: np.random.Generator
) -> list[ReplaySession]:
    """Returns `SESSION_PAIRS` sessions that repeat the questions before a failure in the sessions from `first` on.

    A failure ends a sandbox, so the questions since the previous failure count. Empty if there were no failures.
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
    """Plays sessions that provoke a failure, and as many control sessions, in a random order.

    Significantly more of the provoking ones than of the controls have to fail, which protects a defence with some bad
    pictures, one that crashes now and then, and one on a machine that is slow at times; and their questions have to
    fail more often than in play. While only some fail, all are played again: there are at most `MAX_ROUNDS` tests.
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
    """Returns sessions like those of the purpose that failed most since number `first`, with other pictures.

    Any suspect may be a bad picture: what makes an answer vary may also make a player crash. So every question is
    replaced by another that was answered in play, and repeated questions stay repeated.
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
    """Returns a control of `length` questions, in the order in which one sandbox of the play was asked them.

    If that sandbox ended early or was asked one question only, other sandboxes' questions follow, of the same cell
    first. The control is as long as the provoking sessions because a defence may fail after a number of questions.
    """
    start = int(rng.integers(len(play.sandboxes)))
    turned = [*play.sandboxes[start:], *play.sandboxes[:start]]
    cell = turned[0][0, 0]
    alike = sorted(turned, key=lambda rows: not play.mixes_versions and rows[0, 0] != cell)
    count = round_up(length, play.batch)
    return ReplaySession(SessionPurpose.TRIGGER_CONTROL, np.concatenate(alike)[:count, :2], play.batch)


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
    """Returns the rate of failures among the questions of these sessions that were answered in play and asked here."""
    failed = asked_count = 0
    for session, answers in sessions:
        before: NDArray[np.bool_] = play.answers_to(session.questions) > FAULTED
        failed += int((before & answers.failed_mask).sum())
        asked_count += int((before & answers.asked_mask).sum())
    return DisagreementRate(failed, asked_count)


def _significant(sessions: tuple[int, ...], improbable: float) -> NonResponse | None:
    return NonResponse(sessions, improbable) if improbable < ALPHA else None
