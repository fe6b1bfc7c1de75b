"""User ids: none twice among the live, in this process and beside it."""

import secrets
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.linux import uid_pool

FIRST = 1_000_000_000 + secrets.randbelow(1_000_000_000)
"""Beyond what sandboxes have, and another in each run of these tests."""
OTHER = f"""
import sys
from orchestrator.sandboxes.linux import uid_pool
print(uid_pool.take_uid({FIRST}), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """Another orchestrator, which takes a user id and waits; `other.uid` is that."""
    made = subprocess.Popen([sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    made.uid = int(made.stdout.readline())
    yield made
    made.kill()
    made.communicate()


@pytest.fixture
def take() -> Iterator:
    """Returns a function that takes a user id; all are given back afterwards."""
    taken = []

    def take(first: int = FIRST) -> int:
        taken.append(uid_pool.take_uid(first))
        return taken[-1]

    yield take
    for uid in taken:
        uid_pool.release_uid(uid)


def test_what_is_given_back_is_taken_again(take) -> None:
    """The lowest that is free comes next; giving back twice is nothing."""
    first, second = take(), take()
    uid_pool.release_uid(first)
    uid_pool.release_uid(first)
    assert (take(), take()) == (first, second + 1)


def test_threads_get_different_ones(take) -> None:
    """However many ask at once."""
    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(lambda _: take(), range(64)))) == 64


def test_another_orchestrators_is_not_taken(take, other) -> None:
    """Two rounds at once on one machine share no user id, and one that was killed keeps none."""
    assert take(other.uid) != other.uid
    other.kill()
    other.wait()
    assert take(other.uid) == other.uid


def test_what_was_given_back_stays_with_its_process(take) -> None:
    """Nobody else takes it in between, so that what a player left under it is seen by the same orchestrator's only."""
    uid = take()
    uid_pool.release_uid(uid)
    asked = subprocess.run([sys.executable, "-c", OTHER], input="", capture_output=True, text=True, check=True)
    assert int(asked.stdout) != uid
    assert take() == uid


def test_no_more_open_files_are_ours(monkeypatch) -> None:
    """Where no socket can be made the sandbox is lost, with the reason, and no other id is tried."""

    def none_left(family) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(uid_pool.socket, "socket", none_left)
    with pytest.raises(SandboxLost, match="Too many open files; raise this process's limit"):
        uid_pool.take_uid(FIRST - 1)
