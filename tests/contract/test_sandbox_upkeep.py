"""What every backend owes around a talk: admission, ending everything, sweeping, and leaving nothing behind."""

import gc
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator import sandboxes
from orchestrator.errors import Rejected
from orchestrator.sandboxes.base import CheckStatus, ImageSource

ATTEMPTS = 5


@dataclass(frozen=True)
class Killed:
    """An orchestrator that was killed while its sandbox lived, and a word of that player's command line."""

    run: str
    token: str
    pid: int


def hidden(backend) -> bool:
    """Whether the host cannot see a player's processes: gVisor has a process table of its own."""
    return backend.name in {"docker", "runc"} and os.environ.get("SPARRING_TEST_RUNTIME") == "runsc"


def soon(seconds: float) -> float:
    """Returns the deadline that is so many seconds away."""
    return time.monotonic() + seconds


@pytest.mark.parametrize("stays", ["stay", "go"])
def test_stop_ends_all_that_a_player_started(backend, play, listen, population, stays):
    """Children that ignore signals, lead sessions of their own and were forked twice are dead after `stop`."""
    token = f"token-{secrets.token_hex(8)}"
    sandbox = play("stray", token, stays)
    assert listen.exactly(sandbox, 2) == b"up"
    if stays == "stay" and not hidden(backend):
        assert len(population.living(token)) >= 5
    sandbox.stop()
    assert population.gone(token)


def test_a_second_sandbox_finds_nothing_of_the_first(play, listen):
    """There is a place to write, it is empty at the start, and what is left there is gone afterwards."""
    for _ in range(2):
        sandbox = play("surroundings")
        report = listen.report(sandbox)
        assert report["left"]
        assert report["home"]
        assert report["found"] == []
        sandbox.stop()


def kill_orchestrator(backend, image, population, folder: Path, while_alive: Callable[[], object]) -> Killed:
    """Starts an orchestrator with one sandbox in a run of its own, calls `while_alive`, and kills the orchestrator."""
    token, run = f"token-{secrets.token_hex(8)}", f"dead-{secrets.token_hex(4)}"
    words = [
        backend.name,
        str(folder),
        image.digest,
        str(image.folder or ""),
        run,
        "python3",
        "stray.py",
        token,
        "stay",
    ]
    script = Path(__file__).with_name("abandon.py")
    root = Path(sandboxes.__path__[0]).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen([sys.executable, str(script), *words], stdout=subprocess.PIPE, env=environment) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"up\n"
        while_alive()
        assert population.living(token), "a live orchestrator's player was swept away"
        other.send_signal(signal.SIGKILL)
    return Killed(run, token, other.pid)


def test_sweep_removes_what_a_dead_run_left(backend, image, play, listen, population, tmp_path):
    """The players of a killed orchestrator are ended, those of a live one and of the run to keep are spared.

    Orchestrators of other tests on this engine sweep at their start, so that what is left for us may be gone early.
    """
    live = play("echo")
    for _ in range(ATTEMPTS):
        killed = kill_orchestrator(backend, image, population, tmp_path, backend.clean_up)
        backend.clean_up(spare_run=killed.run)
        spared = hidden(backend) or population.living(killed.token)
        if spared and backend.clean_up() >= 1:
            break
    else:
        pytest.fail("there was nothing to sweep" if spared else "the run to keep was swept away")
    assert population.gone(killed.token)
    assert not list(Path(tempfile.gettempdir()).glob(f"sparring-*-{killed.pid}-*"))
    assert live.send(b"still here", soon(30))
    assert listen.exactly(live, 10) == b"still here"


def test_sandboxes_leave_nothing_behind(backend, play, listen):
    """File descriptors, temporary folders and containers are no more after some sandboxes than before."""
    gc.collect()  # what other tests left to it does not count

    def open_now() -> tuple[int, list[str], list[str]]:
        folders = sorted(str(path) for path in Path(tempfile.gettempdir()).glob(f"sparring-*-{os.getpid()}-*"))
        engine = getattr(backend, "_engine", None)
        containers = (
            [] if engine is None else [c["Id"] for c in engine.containers() if f":{os.getpid()}:" in str(c["Labels"])]
        )
        return len(list(Path("/proc/self/fd").iterdir())), folders, containers

    def once() -> None:
        sandbox = play("echo")
        assert sandbox.send(b"x", soon(30))
        listen.exactly(sandbox, 1)
        sandbox.stop()

    once()
    descriptors, *before = open_now()
    for _ in range(20 if os.environ.get("SPARRING_SOAK") else 4):
        once()
    descriptors_after, *after = open_now()
    assert after == before
    assert descriptors_after <= descriptors


def test_examine_tells_what_holds_and_what_does_not(backend):
    """The examination has findings, none of them a failure here; what is lacking comes with its remedy."""
    checks = backend.diagnose()
    assert checks
    assert [check for check in checks if check.status is CheckStatus.FAIL] == []
    assert all(check.remedy for check in checks if check.status is not CheckStatus.OK)
    if backend.name == "process":
        warning = next(check for check in checks if check.name == "process: isolation")
        assert warning.status is CheckStatus.WARN
        assert "network" in warning.detail
    if backend.name == "docker":
        held = {check.name for check in checks if check.status is CheckStatus.OK}
        assert {"docker: network", "docker: read-only root", "docker: memory limit", "docker: pids limit"} <= held


def test_the_same_source_is_the_same_image(backend, source):
    """Admitting twice gives one identity, a SHA-256."""
    one, two = backend.admit(source), backend.admit(source)
    assert one.digest == two.digest
    assert one.digest.startswith("sha256:")
    assert len(one.digest) == 71


def test_a_source_that_cannot_start_is_rejected_with_remedies(backend):
    """An empty source is refused, and each problem says how to mend it."""
    with pytest.raises(Rejected) as caught:
        backend.admit(ImageSource())
    assert caught.value.problems
    assert all(problem.remedy for problem in caught.value.problems)
