"""The words for people: written when they change, kept from when they began, and read back."""

import pytest

from orchestrator.errors import StoreFault
from orchestrator.executors.kubernetes.attempt_status import AttemptState, AttemptStatus
from orchestrator.executors.kubernetes.status_file import FILE_NAME, ActiveAttempt, StatusFile, read_status

from .rendering import attempt


@pytest.fixture
def times() -> list[str]:
    """What the clock says next."""
    return [f"2026-01-01T00:00:0{second}+00:00" for second in range(9, -1, -1)]


@pytest.fixture
def board(tmp_path, times) -> StatusFile:
    """A board in an empty folder."""
    return StatusFile(tmp_path, times.pop)


def row(words: str, state: AttemptState = AttemptState.WAITING, number: int = 1) -> ActiveAttempt:
    """An attempt, and what it waits for."""
    return ActiveAttempt(attempt(number=number), AttemptStatus(state, words))


def test_words_are_written_and_read_back(board, tmp_path) -> None:
    """With job, attempt, and since when; a wait keeps its beginning until its words change."""
    assert read_status(tmp_path) is None
    board.write_attempts([row("no pod yet")])
    board.write_attempts([row("no pod yet"), row("plays", AttemptState.RUNNING, 2)])
    [first, second] = read_status(tmp_path).jobs
    assert (first.description, first.since, first.attempt) == ("no pod yet", "2026-01-01T00:00:00+00:00", 1)
    assert (second.state, second.since) == (AttemptState.RUNNING, "2026-01-01T00:00:01+00:00")
    board.write_attempts([row("waits for quota")])
    assert [each.since for each in read_status(tmp_path).jobs] == ["2026-01-01T00:00:02+00:00"]


def test_nothing_is_written_while_nothing_changes(board, tmp_path) -> None:
    """The file of an hour's wait is written once."""
    board.write_attempts([row("no pod yet")])
    (tmp_path / FILE_NAME).unlink()
    board.write_attempts([row("no pod yet")])
    assert not (tmp_path / FILE_NAME).exists()
    board.write_attempts([])
    assert read_status(tmp_path).jobs == []


def test_the_controllers_own_wait_is_a_note(board, tmp_path) -> None:
    """It goes when the round does."""
    board.write_attempts([row("no pod yet")])
    board.write_note("another controller runs this round")
    assert (read_status(tmp_path).note, len(read_status(tmp_path).jobs)) == ("another controller runs this round", 1)
    board.write_attempts([row("no pod yet")])
    assert read_status(tmp_path).note == ""


def test_a_damaged_file_is_no_mystery(tmp_path) -> None:
    """It says which, and that it is of no consequence."""
    (tmp_path / FILE_NAME).write_text("{")
    with pytest.raises(StoreFault, match=r"status\.json cannot be read.*written anew|writes it again"):
        read_status(tmp_path)
