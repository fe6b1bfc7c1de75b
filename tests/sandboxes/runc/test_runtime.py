"""Whose fault it is that a runtime did not start a container, by what it logged."""

import json
import os
import stat
from pathlib import Path

import pytest

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.retry_start import StartFailedError
from orchestrator.sandboxes.runc import runtime

STDIO = (0, 1, 2)


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Returns a function that starts a container with a runtime that logs these messages and fails."""
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "unshare"
    program.write_text(f'#!/bin/sh\ncat "{tmp_path}/said" >"$LOG"\nexit 1\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def start(*messages: str) -> None:
        home = tmp_path / "home"
        home.mkdir()
        log = home / "runtime.log"
        program.write_text(program.read_text().replace("$LOG", str(log)))
        said = "".join(json.dumps({"level": "error", "msg": message}) for message in messages)
        Path(tmp_path, "said").write_text(said)
        runtime.start_container(home, "name", {}, tmp_path / "image", STDIO)

    return start


@pytest.mark.parametrize(
    "message",
    [
        "container init caused: write /proc/1/attr: no space left on device",
        'mkdir "/run/sparring/x": no space left on device',
        "unable to start unit: fork/exec /proc/self/exe: resource temporarily unavailable",
        "cannot allocate memory",
    ],
)
def test_a_machine_without_room_is_at_fault(start, message) -> None:
    """The reason ends the message."""
    with pytest.raises(SandboxLost, match="failed to start a container"):
        start(message)


@pytest.mark.parametrize(
    "message",
    [
        'chdir to cwd ("/no space left on device") set in config.json failed: permission denied',
        'exec: "cannot allocate memory": executable file not found in $PATH',
        'exec: "a; no space left on device": permission denied',
    ],
)
def test_a_submissions_words_are_believed_nothing(start, message) -> None:
    """A folder or a program of this name is no full disk: the submission would be tried for ever."""
    with pytest.raises(StartFailedError) as refused:
        start(message)
    assert refused.value.unfit


def test_the_reason_may_come_before_what_follows_from_it(start) -> None:
    """Errors that gVisor logs, without line ends between them, are looked at one by one."""
    with pytest.raises(SandboxLost, match=r"no space left on device; cannot create sandbox: EOF"):
        start("mounting /dev/init: no space left on device", "cannot create sandbox: EOF")
