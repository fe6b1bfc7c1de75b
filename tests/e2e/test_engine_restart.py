"""The engine is stopped and started again in the middle of a round: same results, and nobody is blamed (X1).

The engine is a second one, of the test's own: the machine's stays as it is.
"""

import gc
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from orchestrator.application.rounds import play_rounds
from orchestrator.domain import events
from orchestrator.intake.contest_file import Contest
from orchestrator.sandboxes.linux import cgroup_counters

pytestmark = [
    pytest.mark.docker,
    pytest.mark.timeout(600),
    # The docker library leaves its socket open where the engine refuses it; the collector closes it.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

PLAYERS = ("attack_honest", "attack_slow", "defence_slow", "defence_constant")
MEASURED = {"seconds", "cpu_seconds", "peak_bytes", "bytes_in", "bytes_out", "endings", "sandboxes"}
DRAWN_ANEW = {"commitment", "ledger"}
AWAY = (4.0, 0.0)
"""Seconds between the end of the engine and its next start: longer than three attempts in a hurry take, and so short
that the engine is back while it is found out why a stream ended."""
READY = 120
"""Seconds for an engine to be there, or gone."""


class OwnEngine:
    """A Docker engine with roots of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"unix://{folder}/socket"
        self._daemon: subprocess.Popen | None = None

    def start(self) -> None:
        """Starts it and waits until it answers; starts it again where it gives up, as a service manager does.

        On a busy machine its helper may not be ready within the 15 s that the engine allows it.
        """
        until = time.monotonic() + READY
        self._launch()
        while self.docker("version", check=False).returncode:
            assert time.monotonic() < until, "the engine does not come up: " + (self.folder / "log").read_text()[-2000:]
            if self._daemon is not None and self._daemon.poll() is not None:
                self._launch()
            time.sleep(0.1)

    def _launch(self) -> None:
        self._helper_lives()
        roots = [f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec", f"--pidfile={self.folder}/pid"]
        network = ["--bridge=none", "--iptables=false", "--ip-masq=false"]
        # An engine without a bridge removes docker0 wherever it is: it gets a network of its own.
        command = ["unshare", "--net", "dockerd", *roots, *network, "--host", self.address]
        with (self.folder / "log").open("ab") as log:
            self._daemon = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def end(self, number: signal.Signals) -> None:
        """Ends it by a signal."""
        if self._daemon is not None:
            self._daemon.send_signal(number)
            self._daemon.wait(READY)
            self._daemon = None
            (self.folder / "pid").unlink(missing_ok=True)  # its process id, too, may soon be another's
            until = time.monotonic() + READY
            while self._helper_lives() and time.monotonic() < until:  # the next one waits for it in vain
                time.sleep(0.01)

    def _helper_lives(self) -> bool:
        """Returns whether containerd lives; forgets its process id, which may be another's by now, where it does not.

        An engine that finds a living process of that id takes it for its containerd, and waits for it in vain.
        """
        note = self.folder / "exec" / "containerd" / "containerd.pid"
        if not note.exists():
            return False
        with suppress(OSError):
            if str(self.folder).encode() in Path("/proc", note.read_text().strip(), "cmdline").read_bytes():
                return True
        note.unlink()
        return False

    def docker(self, *words: str, check: bool = True) -> subprocess.CompletedProcess:
        """Asks it something."""
        return subprocess.run(["docker", "--host", self.address, *words], check=check, capture_output=True, text=True)


@pytest.fixture(scope="module")
def own_engine(base_image, require) -> Iterator[OwnEngine]:
    """A second engine that has the base image."""
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        require("docker", "a second engine needs dockerd, and root")
    folder = Path(tempfile.mkdtemp(prefix="sparring-engine-"))
    engine = OwnEngine(folder)
    try:
        engine.start()
        saved = subprocess.Popen(["docker", "save", base_image], stdout=subprocess.PIPE)
        subprocess.run(
            ["docker", "--host", engine.address, "load"], stdin=saved.stdout, check=True, capture_output=True
        )
        saved.stdout.close()
        saved.wait()
        yield engine
    finally:
        engine.end(signal.SIGTERM)
        for path in Path("/proc").glob("[0-9]*/cmdline"):  # helpers of the engine that outlive a SIGKILL of it
            with suppress(OSError):
                if str(folder).encode() in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            if (place := line.split()[4]).startswith(
                str(folder)
            ):  # each start after a SIGKILL mounts its root once more
                subprocess.run(["umount", "--lazy", place], check=True)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def lab(own_engine, shared_lab) -> Iterator[Any]:
    """A laboratory on the second engine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", own_engine.address)
        shared_lab.pictures = 60
        limits = {"perturb_seconds": 30, "classify_seconds": 10}
        shared_lab.settings = {"isolation": "attack", "limits": limits, "replay": {"power": 0}}
        yield shared_lab


@pytest.fixture(scope="module")
def undisturbed(lab) -> Any:
    """The results of the same round with an engine that stays."""
    return unmeasured(lab.play(*PLAYERS, out="undisturbed").model_dump(mode="json"))


@pytest.fixture(scope="module")
def backend() -> str:
    """Rounds in containers only."""
    return "docker"


def unmeasured(part):
    """Returns results without what differs from round to round."""
    if isinstance(part, dict):
        return {key: unmeasured(value) for key, value in part.items() if key not in MEASURED | DRAWN_ANEW}
    return [unmeasured(item) for item in part] if isinstance(part, list) else part


def groups() -> list[Path]:
    """Returns the control groups that this process made above its sandboxes."""
    return [path for one in cgroup_counters.hierarchies() for path in one.glob(f"sparring-*-{os.getpid()}-*")]


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.soak), signal.SIGKILL], ids=["SIGTERM", "SIGKILL"]
)
def test_a_round_survives_its_engine(lab, own_engine, undisturbed, number) -> None:
    """Stopped and started twice at random moments of play: the same results, no fault, nothing left behind."""
    contest, out = Contest(lab.contest(*PLAYERS)), lab.folder / f"disturbed-{number.name}"
    chance = random.Random(int(number))
    steps = threading.Semaphore(0)

    def watch(event: events.Event) -> None:
        if isinstance(event, events.StepFinished):
            steps.release()

    options = play_rounds.RunOptions(backend="docker", slots=2)
    with ThreadPoolExecutor(1) as pool:
        round_ = pool.submit(play_rounds.play_round, contest, out, options, watch)
        for away in AWAY:
            while steps.acquire(blocking=False):
                pass
            for _ in range(2):
                assert steps.acquire(timeout=120), round_.exception(timeout=1)
            time.sleep(chance.uniform(0.0, 1.0))
            assert not round_.done(), "the round was over before the engine was stopped"
            own_engine.end(number)
            time.sleep(away)
            own_engine.start()
        results = round_.result(timeout=300).results

    assert unmeasured(results.model_dump(mode="json")) == undisturbed
    assert [part.faults for part in results.submissions] == [[]] * len(PLAYERS)
    ledger = play_rounds.RoundFolder(out).ledger()
    happened = Counter(entry.event.kind for entry in ledger.read())
    ledger.close()
    assert happened["attempt_failed"] >= 2, "the engine was not missed: the test proves nothing"
    assert happened["backend_returned"] >= 1
    assert own_engine.docker("ps", "--all", "--quiet").stdout == ""
    assert groups() == []
    gc.collect()
