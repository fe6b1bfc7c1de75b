"""Whose doing the end of a stream was: the engine's lives, and what is asked at the end."""

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.errors import AmbiguousExit, SandboxLost
from orchestrator.sandboxes.base import Ending
from orchestrator.sandboxes.docker import container_sandbox
from orchestrator.sandboxes.docker.container_sandbox import ContainerSandbox
from orchestrator.sandboxes.docker.engine_liveness import EngineConnection, LivenessMonitor
from orchestrator.sandboxes.linux.cgroup_counters import Usage
from orchestrator.sandboxes.never_started import NeverStarted
from orchestrator.sandboxes.pending_cleanup import PendingCleanup


class Life:
    """One life of an engine, as far as a witness sees it: it answers everything with 200 and keeps its lines."""

    def __init__(self, path: Path, answer: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> None:
        path.unlink(missing_ok=True)
        self._answer = answer
        self._lines: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def stop_listening(self) -> None:
        """Takes no new connection, and keeps the old ones: how an engine begins to stop."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def end(self) -> None:
        """Ends altogether."""
        self.stop_listening()
        for line in self._lines:
            line.close()

    def say(self, data: bytes) -> None:
        """Says something on every line."""
        for line in self._lines:
            with suppress(OSError):
                line.sendall(data)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                line.recv(4096)
                line.sendall(self._answer)
                self._lines.append(line)


@pytest.fixture
def life(tmp_path):
    """Returns a function that begins a life of the engine at one address; all of them are over at the end."""
    lives = []

    def begin(**changes) -> Life:
        lives.append(Life(tmp_path / "engine", **changes))
        return lives[-1]

    yield begin
    for each in lives:
        each.end()


@pytest.fixture
def witness(life, tmp_path):
    """A life of the engine and a witness of it."""
    first = life()
    seen = EngineConnection.open(str(tmp_path / "engine"), "1.41", 2.0)
    yield first, seen
    seen.close()


def test_an_engine_that_lives_is_shown_to(witness):
    """The line is open and a new connection is answered, also after the engine said something on it."""
    first, seen = witness
    assert seen.engine_survived()
    first.say(b"noise")
    assert seen.engine_survived()


def test_an_engine_that_begins_to_stop_is_not_alive(witness):
    """One that still answers on old connections but takes no new one has begun to end its containers."""
    first, seen = witness
    first.stop_listening()
    assert seen.is_open()
    assert not seen.engine_survived()


def test_another_life_is_not_the_same(witness, life):
    """An engine that was started again is not the one that the witness saw, however well it answers."""
    first, seen = witness
    first.end()
    life()
    assert not seen.is_open()
    assert not seen.engine_survived()


def test_one_witness_serves_a_life_and_the_next_gets_a_new_one(life, tmp_path):
    """The line is shared while it is unbroken, and replaced afterwards."""
    first, watch = life(), LivenessMonitor()
    path = str(tmp_path / "engine")
    one = watch.open_connection(path, "1.41", 2.0)
    assert watch.open_connection(path, "1.41", 2.0) is one
    first.end()
    life()
    other = watch.open_connection(path, "1.41", 2.0)
    assert other is not one
    assert other.engine_survived()
    watch.close()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 500 no\r\n\r\n", b""])
def test_an_engine_that_shows_no_events_is_ours(life, tmp_path, answer):
    """Without a witness no sandbox is started: the loss is ours."""
    begun = life(answer=answer)
    with pytest.raises(SandboxLost):
        EngineConnection.open(str(tmp_path / "engine"), "1.41", 0.2)
    begun.end()
    with pytest.raises(SandboxLost):
        EngineConnection.open(str(tmp_path / "engine"), "1.41", 0.2)


class Line:
    """A stream that has ended."""

    stderr_tail, stream_ended, stdin_bytes, stdout_bytes, stderr_bytes = b"", True, 1, 2, 3

    def send(self, _data, _deadline, _cancelled):
        """Nobody reads."""
        return False

    def receive(self, _deadline):
        """The end."""
        return b""

    def drain(self):
        """Takes nothing."""

    close = drain


class Scene:
    """A sandbox whose stream ended, on an engine that says what it is told to."""

    def __init__(self, monkeypatch, *, code=0, oom=False, killed=False, lived=True, failures=0, kills=0) -> None:
        monkeypatch.setattr(container_sandbox, "_RETRY_SECONDS", 0.0)
        self.there: dict | None = {"Running": False, "ExitCode": code, "OOMKilled": oom}
        self.killed, self.failures = killed, failures
        self.pending = PendingCleanup()
        self.released: list = []
        self.witness = SimpleNamespace(engine_survived=lambda: lived, is_open=lambda: lived)
        account = SimpleNamespace(path="/parent-of-nothing", usage=lambda: Usage(1, 1.0, 1, kills), close=lambda: None)
        self.sandbox = ContainerSandbox(
            self, "c", Line(), self.witness, account, lambda: self.released.append(1), self.pending
        )

    def state(self, _container):
        """Says what became of it, or fails."""
        if self.failures:
            self.failures -= 1
            raise SandboxLost("no answer")
        return self.there

    def wait(self, _container, _seconds):
        """Returns at once."""

    def kill(self, _container):
        """Kills."""

    def remove(self, _container):
        """Removes it."""
        self.there = None

    def was_killed(self, _container, _since):
        """Whether somebody had it killed."""
        return self.killed

    def receive(self):
        """Asks the sandbox for more."""
        return self.sandbox.receive(time.monotonic())


def test_an_end_that_the_engine_lived_through_is_the_players(monkeypatch):
    """Exit code 143 from an engine that lives is a crash with code 143."""
    scene = Scene(monkeypatch, code=143)
    assert scene.receive() == b""
    end = scene.sandbox.stop()
    assert (end.ending, end.code) == (Ending.CRASHED, 143)
    assert (end.stdin_bytes, end.stdout_bytes, end.stderr_bytes) == (1, 2, 3)
    assert scene.released == [1]


@pytest.mark.parametrize("code", [0, 1, 137, 143])
@pytest.mark.parametrize("oom", [True, False])
def test_an_end_that_the_engine_did_not_live_through_is_ambiguous(monkeypatch, code, oom):
    """Whatever the engine reports then: each time it is asked, and in the record, the end is nobody's."""
    scene = Scene(monkeypatch, code=code, oom=oom, lived=False)
    for _ in range(2):
        with pytest.raises(AmbiguousExit):
            scene.receive()
    end = scene.sandbox.stop()
    assert (end.ending, end.code) == (Ending.LOST, None)


def test_an_end_that_nobody_asked_about_is_not_blamed_either(monkeypatch):
    """Stopping a sandbox that ended with its engine records it as lost."""
    assert Scene(monkeypatch, code=137, lived=False).sandbox.stop().ending is Ending.LOST


def test_an_engine_that_was_merely_busy_is_asked_again(monkeypatch):
    """One failed answer of an engine that is there is no loss: a second look decides."""
    scene = Scene(monkeypatch, code=1, failures=1)
    assert scene.receive() == b""
    assert scene.sandbox.stop().ending is Ending.CRASHED


def test_an_engine_that_does_not_answer_is_ambiguous(monkeypatch):
    """Two failed answers are, and the sandbox is lost until it can be ended."""
    scene = Scene(monkeypatch, code=1, failures=3)
    with pytest.raises(AmbiguousExit, match="no answer"):
        scene.receive()
    with pytest.raises(SandboxLost):
        scene.sandbox.stop()
    assert scene.released == []
    scene.pending.run()
    assert scene.released == [1]
    assert scene.sandbox.stop().ending is Ending.LOST
    assert scene.released == [1]


@pytest.mark.parametrize("code", [0, 137, 143])
def test_what_somebody_had_the_engine_kill_is_not_the_players(monkeypatch, code):
    """A kill that the engine was asked for is nobody's crash, whatever code came of it; and it is not ambiguous."""
    scene = Scene(monkeypatch, code=code, killed=True)
    with pytest.raises(SandboxLost, match="somebody") as caught:
        scene.receive()
    assert not isinstance(caught.value, AmbiguousExit)
    assert scene.sandbox.stop().ending is Ending.LOST


@pytest.mark.parametrize(("oom", "kills"), [(True, 0), (False, 1)])
@pytest.mark.parametrize("code", [0, 1, 137])
def test_either_the_engine_or_the_kernel_tells_of_a_kill_at_the_limit(monkeypatch, oom, kills, code):
    """The engine's flag comes late or not at all; the kernel's own count is enough, whatever the exit code."""
    scene = Scene(monkeypatch, code=code, oom=oom, kills=kills)
    scene.receive()
    assert scene.sandbox.stop().ending is Ending.OUT_OF_MEMORY


@pytest.mark.parametrize(("kills", "ending"), [(0, Ending.STOPPED), (1, Ending.OUT_OF_MEMORY)])
def test_the_removal_ends_a_running_player(monkeypatch, kills, ending):
    """The engine is asked for nothing before it: how a running player ends is known, and the kernel counts kills."""
    monkeypatch.setattr(Line, "stream_ended", False)
    scene = Scene(monkeypatch, kills=kills)
    asked = []
    monkeypatch.setattr(scene, "state", lambda _: asked.append("state") or scene.there)
    monkeypatch.setattr(scene, "kill", lambda _: asked.append("kill"))
    monkeypatch.setattr(scene, "remove", lambda _: asked.append("remove") or setattr(scene, "there", None))
    assert scene.sandbox.stop().ending is ending
    assert asked == ["remove", "state"]


def test_without_a_control_group_the_engine_tells_how_a_running_player_ended(monkeypatch):
    """It is killed before it is removed, and the engine's flag of a kill at the limit is read between both."""
    monkeypatch.setattr(Line, "stream_ended", False)
    scene = Scene(monkeypatch)
    scene.there = {"Running": True}
    monkeypatch.setattr(scene, "kill", lambda _: setattr(scene, "there", {"Running": False, "OOMKilled": True}))
    sandbox = ContainerSandbox(scene, "c", Line(), scene.witness, None, lambda: None, scene.pending)
    assert sandbox.stop().ending is Ending.OUT_OF_MEMORY
    assert scene.there is None


def test_two_that_end_a_sandbox_at_once_end_it_once(monkeypatch):
    """Its owner and whoever tidies up behind a lost engine may call together: its user id is given back once."""
    scene = Scene(monkeypatch)
    removed, both = [], threading.Barrier(2, timeout=5)

    def remove(container):
        removed.append(container)
        time.sleep(0.05)  # long enough for the other one to come by
        scene.there = None

    scene.remove = remove
    ends = []

    def stop():
        both.wait()
        ends.append(scene.sandbox.stop())

    threads = [threading.Thread(target=stop) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(removed) == len(scene.released) == 1
    assert ends[0] is ends[1]


@pytest.mark.parametrize(("doubtful", "ending"), [(False, Ending.CRASHED), (True, Ending.LOST)])
def test_a_player_that_could_not_be_started_has_ended(doubtful, ending):
    """It reads nothing and its stream has ended: by its own doing, or nobody can tell by whose."""
    stillborn = NeverStarted("why", doubtful=doubtful)
    assert not stillborn.send(b"x", 0.0)
    if doubtful:
        with pytest.raises(AmbiguousExit, match="why"):
            stillborn.receive(0.0)
    else:
        assert stillborn.receive(0.0) == b""
    assert stillborn.stop().ending is ending
    assert stillborn.stop().stderr == b"why"
