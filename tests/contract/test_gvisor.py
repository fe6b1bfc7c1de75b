"""What the runc backend owes to players that gVisor's runsc runs. The whole contract: SPARRING_TEST_RUNTIME=runsc."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import composition
from orchestrator.domain.policy import Runtime, SandboxPolicy, User
from orchestrator.domain.tasks import Limits
from orchestrator.errors import BackendUnavailable, SandboxLost
from orchestrator.sandboxes.base import CheckStatus, Ending, SandboxSpec
from orchestrator.sandboxes.runc import bundle, runtime
from orchestrator.sandboxes.runc.cleanup import RUN_FOLDER

pytestmark = [pytest.mark.docker, pytest.mark.parametrize("backend", ["runc"], indirect=True, scope="module")]

MIB = 1024 * 1024
BEHIND = {
    "limits.memory": lambda resources: resources["memory"].update(limit=2**34, swap=2**34),
    "limits.pids": lambda resources: resources.pop("pids"),
    "limits.cpus": lambda resources: resources.pop("cpu"),
}


@pytest.fixture(scope="module", autouse=True)
def gvisor(require) -> None:
    """Skips these tests where there is no runsc."""
    if shutil.which("runsc") is None:
        require("runsc", "there is no runsc: apt-get install runsc")


@pytest.fixture(scope="session")
def policy() -> SandboxPolicy:
    """The policy for strangers' submissions in a contest that demands gVisor."""
    return SandboxPolicy(runtime=Runtime.RUNSC)


@pytest.fixture
def adopted() -> Iterator[None]:
    """Checks that this process has no more children after the test than before it: living ones, or dead ones."""
    before = children()
    yield
    assert children() <= before


def children() -> set[int]:
    """Returns our children, also those that ended and were not waited for."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(path.parent.name))
    return found


def mentions(word: str) -> list[int]:
    """Returns the processes of this machine whose command line has a word in it: those of one sandbox by its folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if word.encode() in line:
            found.append(int(path.parent.name))
    return found


def test_a_player_sees_gvisors_kernel(play, listen, adopted) -> None:
    """It answers over its pipes, and its exit code is known."""
    program = "import os, sys; print(sys.stdin.readline(), os.uname().release, flush=True); sys.exit(7)"
    sandbox = play("", command=("python3", "-c", program))
    assert sandbox.send(b"question\n", time.monotonic() + 30)
    said, release = listen.end(sandbox).decode().split()
    end = sandbox.stop()
    assert said == "question"
    assert release != os.uname().release
    assert (end.ending, end.code) == (Ending.CRASHED, 7)
    assert end.cpu_seconds > 0
    assert end.peak_bytes > MIB


def test_a_signal_that_ends_it_is_known(play, listen, adopted) -> None:
    """As a shell counts: 128 and its number."""
    sandbox = play("", command=("python3", "-c", "import os; os.kill(os.getpid(), 6)"))
    assert listen.end(sandbox) == b""
    end = sandbox.stop()
    assert (end.ending, end.code) == (Ending.CRASHED, 128 + signal.SIGABRT)


def test_a_stream_that_a_player_closes_has_ended(backend, image, run, policy, listen, adopted) -> None:
    """No process of gVisor's, nor the one that waits for them, keeps a player's stdout; the init program would."""
    command = ("python3", "-c", "import os, time; os.close(1); time.sleep(1000)")
    sandbox = backend.start(SandboxSpec(replace(image, command=command), replace(policy, init=False), run, "job"))
    try:
        assert listen.end(sandbox) == b""
    finally:
        assert sandbox.stop().ending is Ending.STOPPED


def test_nothing_outlives_a_sandbox(play, listen, adopted) -> None:
    """A player that forked has several processes here; `stop` ends them, and what runs them, and its files are gone."""
    sandbox = play("stray", "token", "stay")
    assert listen.exactly(sandbox, 2) == b"up"
    name = sandbox._container
    assert len(mentions(name)) >= 3, "gVisor's two processes and the one that waits for them"
    assert sandbox.stop().ending is Ending.STOPPED
    assert mentions(name) == []
    assert not (RUN_FOLDER / name).exists()


def test_a_player_that_takes_too_much_memory_is_known(play, listen, adopted) -> None:
    """The limit ends the whole sandbox, gVisor with it."""
    program = "hoard = [bytearray(b'x' * 2**20) for _ in range(512)]"
    sandbox = play("", command=("python3", "-c", program), limits=replace(Limits(), memory=128 * MIB))
    assert listen.end(sandbox, 60) == b""
    assert sandbox.stop().ending is Ending.OUT_OF_MEMORY


@pytest.mark.parametrize("control", BEHIND)
def test_a_limit_that_is_not_in_force_is_found(backend, image, run, policy, monkeypatch, adopted, control) -> None:
    """Behind the backend's back one limit is lifted: start names it, and nothing of the sandbox is left."""
    described = bundle.container_config

    def weakened(*arguments):
        config = described(*arguments)
        BEHIND[control](config["linux"]["resources"])
        return config

    before = set(RUN_FOLDER.iterdir())
    monkeypatch.setattr(bundle, "container_config", weakened)
    with pytest.raises(SandboxLost, match=rf"policy demands.*[:;] {control}: wanted"):
        backend.start(SandboxSpec(replace(image, command=("python3", "silent.py")), policy, run, "job"))
    assert not [home for home in set(RUN_FOLDER.iterdir()) - before if f"-{os.getpid()}-" in home.name]


def test_another_program_under_its_name_is_found(backend, image, run, policy, monkeypatch, tmp_path, adopted) -> None:
    """A `runsc` that starts the container with runc: the process on this machine is not gVisor's."""
    fake = tmp_path / "runsc"
    fake.write_text('#!/bin/sh\nshift\nexec runc "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setitem(runtime.COMMANDS, Runtime.RUNSC, (str(fake), "--network=none"))
    with pytest.raises(SandboxLost, match=r"policy demands.*runtime: wanted runsc"):
        backend.start(SandboxSpec(replace(image, command=("python3", "silent.py")), policy, run, "job"))


def test_why_it_cannot_start_is_told(backend, image, run, policy, monkeypatch, adopted) -> None:
    """A description that gVisor refuses: its own words, and nobody's fault but ours."""
    described = bundle.container_config

    def broken(*arguments):
        config = described(*arguments)
        config["process"]["args"] = []
        return config

    monkeypatch.setattr(bundle, "container_config", broken)
    with pytest.raises(SandboxLost, match=r"runsc failed to start it: .*Arg must be defined"):
        backend.start(SandboxSpec(replace(image, command=("python3", "silent.py")), policy, run, "job"))


def test_a_program_that_is_not_there_is_the_players_fault(play, listen, adopted) -> None:
    """As under runc, its init program says so."""
    sandbox = play("", command=("no-such-program",))
    assert listen.end(sandbox) == b""
    end = sandbox.stop()
    assert (end.ending, end.code) == (Ending.CRASHED, 127)


def test_a_killed_orchestrators_sandboxes_are_swept(backend, image, tmp_path) -> None:
    """Its players end, and so does the process that waited for them, which was no part of any sandbox."""
    run = f"dead-{secrets.token_hex(4)}"
    words = [
        backend.name,
        str(tmp_path),
        image.digest,
        str(image.folder or ""),
        run,
        "python3",
        "stray.py",
        "token",
        "stay",
    ]
    script = Path(__file__).with_name("abandon.py")
    environment = {**os.environ, "SPARRING_TEST_RUNTIME": "runsc", "PYTHONPATH": str(Path(bundle.__file__).parents[3])}
    with subprocess.Popen([sys.executable, str(script), *words], stdout=subprocess.PIPE, env=environment) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"up\n"
        other.send_signal(signal.SIGKILL)
    [home] = [home for home in RUN_FOLDER.iterdir() if f"-{other.pid}-" in home.name]
    assert len(mentions(home.name)) >= 3
    backend.clean_up()
    deadline = time.monotonic() + 30
    while mentions(home.name):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not home.exists()


def test_no_gpu_is_given(backend) -> None:
    """Docker may: what was never tried here is refused before a round."""
    with pytest.raises(BackendUnavailable, match="under runsc no GPU"):
        backend.require_available(Runtime.RUNSC, gpus=1)


def test_doctor_tries_it(backend) -> None:
    """A sandbox ran, and saw gVisor's kernel."""
    [check] = [check for check in backend.diagnose() if check.name == "runc: runsc"]
    assert check.status is CheckStatus.OK, check.detail
    assert "its player sees kernel" in check.detail


def test_it_is_preferred_to_docker(backend, tmp_path) -> None:
    """A contest with `runtime: runsc` plays here, where each sandbox has a mount of its own."""
    assert composition.choose_container_backend(tmp_path, Runtime.RUNSC) == ("runc", "")


def test_a_players_root_is_read_only(backend, image, run, policy, listen, adopted) -> None:
    """As its policy demands, even to its root user, although the mount below it is not."""
    program = """
import errno, json
def attempt(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "written"
print(json.dumps({path: attempt(path) for path in ("/added", "/dev/init", "/tmp/mine")}))
"""
    command = ("python3", "-c", program)
    sandbox = backend.start(SandboxSpec(replace(image, command=command), replace(policy, user=User.ROOT), run, "job"))
    said = listen.end(sandbox)
    sandbox.stop()
    refused = dict.fromkeys(("/added", "/dev/init"), "EROFS")
    assert json.loads(said) == refused | {"/tmp/mine": "written"}  # noqa: S108  the sandbox's own
