"""What the docker backend owes beyond the contract: hostile images, ghosts, and whose fault an ended stream is."""

import io
import json
import os
import secrets
import socket
import tarfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.domain.policy import Runtime, SandboxPolicy, Seccomp
from orchestrator.errors import AmbiguousExit, BackendUnavailable, Rejected, SandboxLost
from orchestrator.sandboxes.base import BackendSettings, Ending, Image, ImageSource, SandboxSpec
from orchestrator.sandboxes.docker import backend as docker_backend
from orchestrator.sandboxes.retry_start import StartFailedError

RUNTIME = Runtime(os.environ.get("SPARRING_TEST_RUNTIME", "runc"))
MANY_SANDBOXES = 40
pytestmark = [pytest.mark.docker, pytest.mark.parametrize("backend", ["docker"], indirect=True, scope="module")]


class Relay:
    """Stands between a backend and the engine, and can be cut."""

    def __init__(self, path: Path, engine: str) -> None:
        self._engine = engine
        self._lines: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        """Hangs up on everyone, and answers nobody any more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for line in self._lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()
        for line in self._lines:
            line.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._engine)
                self._lines += [near, far]
                for ends in ((near, far), (far, near)):
                    self._threads.append(threading.Thread(target=self._pump, args=ends))
                    self._threads[-1].start()

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def soon(seconds: float) -> float:
    """Returns the deadline that is so many seconds away."""
    return time.monotonic() + seconds


def label(engine, run: str) -> list:
    """Returns the containers of a run, ended ones too."""
    return engine.containers.list(all=True, filters={"label": f"sparring.run={run}"})


def test_everything_refused_in_an_image_is_named_at_once(backend, build):
    """VOLUME, HEALTHCHECK, ONBUILD, our labels and a working directory in /proc are refused together, by name."""
    image = build(
        "VOLUME /data\nHEALTHCHECK CMD true\nONBUILD RUN true\nLABEL sparring.run=mine\nWORKDIR /proc/self\n"
        "ENTRYPOINT []\nCMD []\n"
    )
    with pytest.raises(Rejected) as caught:
        backend.admit(ImageSource(image=image))
    places = {problem.place for problem in caught.value.problems}
    assert places == {"VOLUME", "HEALTHCHECK", "ONBUILD", "LABEL", "WORKDIR", "ENTRYPOINT"}
    assert all(problem.remedy for problem in caught.value.problems)


def test_a_missing_image_is_rejected_with_the_way_to_get_it(backend):
    """An image that the engine lacks is never pulled: the message says how to bring it."""
    with pytest.raises(Rejected, match="sparring image build"):
        backend.admit(ImageSource(image=f"sparring/there-is-none:{secrets.token_hex(4)}"))


def test_a_reference_that_is_none_is_not_asked_for(backend):
    """A name that would lead elsewhere in the engine's interface is refused before it is used."""
    with pytest.raises(Rejected, match="not the name or id"):
        backend.admit(ImageSource(image="../containers/x"))


def test_the_operators_proxy_is_not_handed_to_players(backend, image, policy, listen, monkeypatch, tmp_path):
    """Proxy credentials in the operator's client configuration do not reach a player."""
    (tmp_path / "config.json").write_text(json.dumps({"proxies": {"default": {"httpProxy": "http://u:hunter2@proxy"}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    fresh = docker_backend.DockerBackend(BackendSettings(tmp_path))
    sandbox = fresh.start(SandboxSpec(replace(image, command=("python3", "surroundings.py")), policy, "test", "job"))
    try:
        assert "hunter2" not in str(listen.report(sandbox))
    finally:
        sandbox.stop()


def test_the_engine_sets_up_no_network(play, listen, engine, run):
    """A player has a loopback and nothing else, and the engine did not even join it to its network `none`."""
    assert listen.report(play("surroundings"))["interfaces"] == ["lo"]
    (container,) = label(engine, run)
    assert container.attrs["NetworkSettings"]["Networks"] == {}


def test_live_sandboxes_have_user_ids_of_their_own(play, engine, run):
    """Two live sandboxes never share a user id, and an ended one's is free again."""
    one, two = play("silent"), play("silent")
    users = [container.attrs["Config"]["User"] for container in label(engine, run)]
    assert len(users) == len(set(users)) == 2
    one.stop()
    two.stop()
    later: set[str] = set()
    while len(later) < MANY_SANDBOXES and not later & set(users):  # others on this engine may take them first
        play("silent")
        later = {container.attrs["Config"]["User"] for container in label(engine, run)}
    assert later & set(users)


@pytest.mark.parametrize(
    ("files", "change"),
    [
        ({"tmp": b""}, ""),
        ({"sbin": b""}, ""),
        ({"player": b""}, "WORKDIR /player"),
        ({"player": "/proc"}, "WORKDIR /player/self/fd/8"),
    ],
)
def test_an_image_that_is_in_its_own_way_is_not_our_fault(backend, engine, policy, listen, files, change):
    """A file where /tmp, the init program or the working directory belongs is a crash with its reason, not retried."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
            tar.addfile(entry, io.BytesIO(b""))
    changes = ['ENTRYPOINT ["/x"]', *([change] if change else [])]
    identity = json.loads(engine.api.import_image_from_data(archive.getvalue(), changes=changes))["status"]
    run = f"unfit-{secrets.token_hex(4)}"
    try:
        # As an orchestrator that takes a round over starts it: admission would have refused it.
        sandbox = backend.start(SandboxSpec(Image(identity, "unfit", ("/x",)), policy, run, "job"))
        if RUNTIME is Runtime.RUNSC and "sbin" in files:  # gVisor dies of it, without a reason that tells whose it is
            with pytest.raises(AmbiguousExit, match="other images start"):
                sandbox.receive(soon(1))
            assert sandbox.stop().ending is Ending.LOST
        else:
            assert RUNTIME is Runtime.RUNSC or not sandbox.send(b"x", soon(1))  # gVisor may reach the init program
            assert listen.end(sandbox) == b""
            end = sandbox.stop()
            assert end.ending is Ending.CRASHED
            assert RUNTIME is Runtime.RUNSC or b"cannot be started" in end.stderr
        assert label(engine, run) == []
    finally:
        engine.images.remove(identity, force=True)


@pytest.mark.parametrize("fails", ["once", "for it alone", "for all"])
def test_a_start_that_fails_is_compared_with_a_known_image(backend, image, engine, run, policy, monkeypatch, fails):
    """What passes is overcome at once; what one image alone meets is its own, ambiguously; what all meet is ours."""
    start, asked = backend._engine.start, []

    def failing(container):
        asked.append(container)
        if fails == "for all" or len(asked) == 1 or (fails == "for it alone" and len(asked) == 3):
            raise StartFailedError("the engine failed to start it: EOF", unfit=False)
        start(container)

    monkeypatch.setattr(backend._engine, "start", failing)
    sandbox_spec = SandboxSpec(image, policy, run, "job")
    if fails == "for all":
        with pytest.raises(SandboxLost, match="nor can sparring/base:cpu be started") as caught:
            backend.start(sandbox_spec)
        assert not isinstance(caught.value, AmbiguousExit)
    elif fails == "once":
        assert backend.start(sandbox_spec).stop().ending is Ending.STOPPED
    else:
        sandbox = backend.start(sandbox_spec)
        with pytest.raises(AmbiguousExit, match="other images start"):
            sandbox.receive(soon(1))
        assert sandbox.stop().ending is Ending.LOST
    assert len(asked) == {"once": 3, "for it alone": 3, "for all": 2}[fails]
    assert [backend._engine.inspect(container) for container in asked] == [None] * len(asked)


def test_one_container_that_stays_keeps_no_other_here(backend, play, engine, run, monkeypatch):
    """What is left of a run that ended is swept as far as it can be, and the failure is told."""
    play("silent"), play("silent")
    stays, _ = (container.id for container in label(engine, run))
    really = backend._engine.remove

    def remove(container):
        if container == stays:
            raise SandboxLost("busy")
        really(container)

    monkeypatch.setattr(backend._engine, "remove", remove)
    with pytest.raises(SandboxLost, match="busy"):
        backend.clean_up(ended_run=run)
    assert [container.id for container in label(engine, run)] == [stays]
    monkeypatch.undo()
    assert backend.clean_up(ended_run=run) >= 1
    assert label(engine, run) == []


def test_a_player_that_kills_itself_has_crashed(play, listen):
    """SIGKILL by the player's own hand is its crash, not ours and not the memory limit."""
    sandbox = play("leave", "-9")
    listen.end(sandbox)
    end = sandbox.stop()
    assert (end.ending, end.code) == (Ending.CRASHED, 137)


def test_a_player_killed_by_others_is_lost_not_dead(play, engine, run):
    """Somebody else's `docker kill` is never scored: the sandbox is lost."""
    sandbox = play("silent")
    label(engine, run)[0].kill()
    with pytest.raises(SandboxLost, match="somebody"):
        sandbox.receive(soon(20))
    sandbox.stop()
    assert label(engine, run) == []


def test_a_removed_container_is_lost_not_dead(play, engine, run):
    """Somebody else's `docker rm` is never scored either."""
    sandbox = play("silent")
    label(engine, run)[0].remove(force=True)
    with pytest.raises(SandboxLost, match="somebody"):
        sandbox.receive(soon(20))
    sandbox.stop()


def test_an_engine_that_goes_away_is_never_the_players_fault(image, engine, policy, monkeypatch, tmp_path, backend):
    """When the stream ends because the engine ended, the sandbox is lost; what is left of it goes when it is back."""
    relay = Relay(tmp_path / "engine", backend._engine.path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'engine'}")
    run = f"cut-{secrets.token_hex(4)}"
    far = docker_backend.DockerBackend(BackendSettings(tmp_path))
    sandbox = far.start(SandboxSpec(replace(image, command=("python3", "silent.py")), policy, run, "job"))
    try:
        assert sandbox.receive(soon(0.2)) is None
    finally:
        relay.cut()
    with pytest.raises(SandboxLost):
        sandbox.receive(soon(20))
    with pytest.raises(SandboxLost):
        sandbox.stop()
    assert len(label(engine, run)) == 1
    groups = sandbox._cgroup._folders if sandbox._cgroup else []
    assert all(folder.exists() for folder in groups)
    (tmp_path / "engine").unlink()
    back = Relay(tmp_path / "engine", backend._engine.path)
    try:
        far.clean_up(ended_run=run)
    finally:
        back.cut()
    assert label(engine, run) == []
    assert not any(folder.exists() for folder in groups)
    assert sandbox.stop().ending is Ending.LOST


def test_no_engine_is_said_with_the_remedy(backend, monkeypatch, tmp_path):
    """Without an engine, or with one elsewhere, `check` says what to do."""
    for address, said in (("unix:///nonexistent/engine", "start the engine"), ("tcp://127.0.0.1:1", "DOCKER_HOST")):
        monkeypatch.setenv("DOCKER_HOST", address)
        absent = docker_backend.DockerBackend(BackendSettings(tmp_path))
        with pytest.raises(BackendUnavailable, match=said):
            absent.require_available()
        [check] = absent.diagnose()
        assert check.status == "absent"
        assert check.remedy not in check.detail


@pytest.mark.skipif(RUNTIME is not Runtime.RUNC, reason="gVisor answers ptrace itself: its players cannot do this")
def test_a_ghost_container_is_exorcised(backend, image, listen):
    """Processes that live on after the engine took their container for ended are killed, and their group is removed."""
    haunted = SandboxPolicy(init=False, seccomp=Seccomp.ENGINE)  # ours refuses ptrace
    sandbox = backend.start(SandboxSpec(replace(image, command=("python3", "ghost.py")), haunted, "test", "ghost"))
    assert listen.exactly(sandbox, 2) == b"up"
    group = sandbox._group
    assert sandbox.send(b"x", soon(5))
    deadline = soon(20)
    while sandbox._engine.state(sandbox._container)["Running"]:
        assert time.monotonic() < deadline, "the engine did not take the stop for an exit"
        time.sleep(0.05)
    assert group._processes(), "nothing haunts: the test proves nothing"
    sandbox.stop()
    assert group._processes() == set()
    assert not any(folder.exists() for folder in group._folders)


@pytest.mark.skipif(RUNTIME is not Runtime.RUNSC, reason="about gVisor's processes on the host")
def test_nothing_of_gvisor_outlives_a_sandbox(play, engine, listen, run):
    """The host sees a sandbox and a gofer for each container while it lives, and neither after `stop`."""
    sandbox = play("stray", "token", "stay")
    assert listen.exactly(sandbox, 2) == b"up"
    [container] = label(engine, run)
    assert len(gvisors(container.id)) == 2
    sandbox.stop()
    deadline = soon(5)
    while gvisors(container.id):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def gvisors(container: str) -> list[int]:
    """Returns gVisor's processes on the host for a container."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = path.read_bytes()
            if line.startswith(b"runsc-") and container.encode() in line:
                found.append(int(path.parent.name))
    return found
