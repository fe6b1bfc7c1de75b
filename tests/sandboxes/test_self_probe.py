"""What `sparring doctor` says of what a sandbox really is."""

import json
from collections.abc import Callable

import pytest

from orchestrator.sandboxes import self_probe
from orchestrator.sandboxes.base import CheckStatus, Ending, Exit

FINE = {
    "interfaces": ["lo"],
    "root": [],
    "Uid": ["20000"],
    "CapEff": ["0" * 16],
    "CapBnd": ["0" * 16],
    "NoNewPrivs": ["1"],
    "Seccomp": ["2"],
    "tmp": 1024**2,
    "forks": 30,
}
FILLED = Exit(Ending.OUT_OF_MEMORY)


class Told:
    """A sandbox whose player writes what it saw, and is ended for the memory it took."""

    def __init__(self, seen: object, end: Exit = FILLED) -> None:
        self._left, self._end = seen if isinstance(seen, bytes) else json.dumps(seen).encode(), end

    def receive(self, deadline: float) -> bytes:
        """Returns all of it, then nothing."""
        del deadline
        data, self._left = self._left, b""
        return data

    def stop(self) -> Exit:
        """Returns how it ended."""
        return self._end


@pytest.fixture
def found() -> Callable[..., dict[str, tuple[CheckStatus, str]]]:
    """Returns `found(**what the probe saw otherwise)`: status and detail of each check."""

    def look(**seen: object) -> dict[str, tuple[CheckStatus, str]]:
        checks = self_probe.run_probe("docker", lambda: Told(FINE | seen))
        return {check.name.removeprefix("docker: "): (check.status, check.detail) for check in checks}

    return look


def test_what_holds_is_said_in_words(found) -> None:
    """Every check is fine, and no detail shows a list as Python writes it."""
    checks = found()
    assert {status for status, _ in checks.values()} == {CheckStatus.OK}
    assert checks["user"][1] == "uid inside: 20000"
    assert checks["network"][1] == "interfaces inside: lo"
    assert checks["read-only root"][1] == "could write: nothing"
    assert not [detail for _, detail in checks.values() if "[" in detail]


@pytest.mark.parametrize(
    ("name", "seen", "detail"),
    [
        ("network", {"interfaces": ["lo", "eth0"]}, "interfaces inside: lo, eth0"),
        ("read-only root", {"root": ["/etc/x", "/x"]}, "could write: /etc/x, /x"),
        ("user", {"Uid": ["0"]}, "uid inside: 0"),
        ("user", {"Uid": []}, "uid inside: nothing"),
        ("capabilities", {"CapEff": None}, "effective: nothing"),
        ("seccomp", {"Seccomp": ["0"]}, "Seccomp: 0 (2 is a filter)"),
    ],
)
def test_what_does_not_hold_is_a_failure(found, name, seen, detail) -> None:
    """A sandbox that is weaker than promised fails, with what was seen."""
    assert found(**seen)[name] == (CheckStatus.FAIL, detail)


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (Exit(Ending.CRASHED, stderr=b"a\nruntime: out of loop devices\n"), "runtime: out of loop devices"),
        (Exit(Ending.STOPPED), "stopped"),
    ],
)
def test_a_probe_that_writes_nothing_is_told_by_its_end(end, why) -> None:
    """Where no JSON comes, the reason is what the sandbox wrote last, or how it ended."""
    (check,) = self_probe.run_probe("runc", lambda: Told(b"", end))
    assert (check.status, check.detail) == (CheckStatus.FAIL, f"the probe gave no answer: {why}")
