"""What was played, as the examination reads it."""

import numpy as np
import pytest

from orchestrator.domain.plan import Cell
from orchestrator.integrity.replay_session import (
    DefencePlay,
    ReplaySession,
    SessionAnswers,
    SessionPurpose,
    SessionTrace,
    is_decision,
)


@pytest.fixture
def play() -> DefencePlay:
    """Two sandboxes, one fault, one picture that was not asked."""
    one = np.array([[1, 2, 3], [1, 0, -1]], np.int32)
    two = np.array([[0, 0, 4], [0, 1, -2]], np.int32)
    return DefencePlay((Cell("d", "a"), Cell("d")), (one, two), 3)


def test_a_play_knows_its_clean_cell(play) -> None:
    """It is the one without an attack, wherever it stands."""
    assert play.clean_cell == 1


def test_a_play_knows_its_answers(play) -> None:
    """By question, with the mark for what was not asked; faults are no decisions."""
    assert play.answer_table.tolist() == [[4, -2, -3], [-1, -3, 3]]
    assert play.decided_rows.tolist() == [[1, 2, 3], [1, 0, -1], [0, 0, 4]]
    assert play.answers_to(np.array([[1, 2], [0, 1]], np.int32)).tolist() == [3, -2]


@pytest.mark.parametrize(("answer", "decides"), [(0, True), (-1, True), (-2, False), (-3, False)])
def test_labels_and_abstentions_decide(answer, decides) -> None:
    """A fault and a question that was not asked do not."""
    assert is_decision(answer) is decides


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -0.1])
def test_a_silence_has_an_end(seconds) -> None:
    """No session has a pause that no record could keep: it is refused where it is made."""
    with pytest.raises(ValueError, match=r"pauses of \{3: "):
        ReplaySession(SessionPurpose.BURSTS, np.zeros((6, 2), np.int32), pauses={3: seconds})


def test_an_empty_play_is_a_play() -> None:
    """Where nothing was asked there are no rows, in the same layout."""
    assert DefencePlay((Cell("d"),), (), 3).decided_rows.shape == (0, 3)


def test_a_trace_numbers_its_sessions() -> None:
    """The first session is number 0, as the first step of its job on record."""
    trace = SessionTrace()
    session = ReplaySession(SessionPurpose.SAME_ORDER, np.zeros((1, 2), np.int32))
    said = SessionAnswers(
        np.zeros(1, np.int32), np.zeros(1, np.float32), np.zeros(1), np.zeros(1, bool), np.zeros(1, bool)
    )
    asking = trace.play_session(session)
    assert next(asking) is session
    with pytest.raises(StopIteration) as end:
        asking.send(said)
    assert end.value.value is said
    assert trace.last_number == 0
