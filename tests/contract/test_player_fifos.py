"""FIFOs between a container's player and us: what the player can do with them, and where there are none."""

import os
import secrets
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.domain.policy import Runtime
from orchestrator.errors import AmbiguousExit, SandboxLost
from orchestrator.sandboxes.base import BackendSettings, Ending, SandboxSpec
from orchestrator.sandboxes.docker import backend as docker_backend
from orchestrator.sandboxes.docker import pipe_folders
from orchestrator.sandboxes.docker.attach_stream import Attachment
from orchestrator.sandboxes.docker.fifo_stream import FifoStream
from orchestrator.sandboxes.docker.player_fifos import PlayerFifos

RUNTIME = Runtime(os.environ.get("SPARRING_TEST_RUNTIME", "runc"))
pytestmark = [pytest.mark.docker, pytest.mark.parametrize("backend", ["docker"], indirect=True, scope="module")]
LOOK = r"""
import json, os
def attempt(call, *arguments):
    try:
        call(*arguments)
        return "done"
    except OSError as error:
        return error.strerror
seen = {"names": sorted(os.listdir("/io"))}
seen["streams"] = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
seen["open"] = sorted(int(name) for name in os.listdir("/proc/self/fd"))
for name in ("in", "out", "err", "sh"):
    seen[name] = {
        "read": attempt(os.open, f"/io/{name}", os.O_RDONLY | os.O_NONBLOCK),
        "write": attempt(os.open, f"/io/{name}", os.O_WRONLY | os.O_NONBLOCK),
        "chmod": attempt(os.chmod, f"/io/{name}", 0o777),
        "remove": attempt(os.unlink, f"/io/{name}"),
        "links": os.stat(f"/io/{name}").st_nlink,
    }
seen["make"] = [attempt(os.mkfifo, "/io/new"), attempt(os.mkdir, "/io/folder")]
seen["rename"] = attempt(os.rename, "/io/in", "/io/out")
seen["mounts"] = [line.split()[3:6] for line in open("/proc/self/mountinfo") if line.split()[4].startswith("/io")]
seen["environment"] = dict(os.environ)
print(json.dumps(seen), flush=True)
"""


def soon(seconds: float) -> float:
    """Returns the deadline that is so many seconds away."""
    return time.monotonic() + seconds


def label(engine, run: str) -> list:
    """Returns the containers of a run, ended ones too."""
    return engine.containers.list(all=True, filters={"label": f"sparring.run={run}"})


@pytest.fixture
def fifos(backend) -> None:
    """Skips where this engine's players have no FIFOs; with our own engine and images they do."""
    refusal = backend._pipes.refusal(RUNTIME, backend._require_fifos)
    if RUNTIME is Runtime.RUNC:
        assert refusal == ""
    elif refusal:
        pytest.skip(refusal)


@pytest.fixture
def attached(tmp_path):
    """A backend whose players have no FIFOs."""
    made = docker_backend.DockerBackend(BackendSettings(tmp_path))

    def refuse(_: Runtime) -> None:
        raise pipe_folders.FifosRefusedError("a test has it so")

    made._pipes.refusal(RUNTIME, refuse)
    return made


def report(backend, image, policy, listen) -> dict:
    """Returns what a player of a backend sees."""
    sandbox_spec = SandboxSpec(replace(image, command=("python3", "-I", "-S", "-c", LOOK)), policy, "test", "job")
    sandbox = backend.start(sandbox_spec)
    try:
        return listen.report(sandbox)
    finally:
        sandbox.stop()


def test_a_player_can_use_its_fifos_and_nothing_else_of_the_folder(backend, fifos, image, policy, listen):
    """It reads `in`, writes to `out` and `err`, runs the shell that it cannot read, and changes nothing."""
    seen = report(backend, image, policy, listen)
    assert seen["names"] == ["err", "in", "out", "sh"]
    refused, read_only = "Permission denied", "Read-only file system"
    allowed = {name: {act for act in ("read", "write") if seen[name][act] == "done"} for name in seen["names"]}
    assert allowed == {"in": {"read"}, "out": {"write"}, "err": {"write"}, "sh": set()}
    for name in seen["names"]:
        assert {seen[name]["chmod"], seen[name]["remove"]} <= {refused, read_only, "Operation not permitted"}
        assert seen[name]["links"] == 1
    assert {*seen["make"], seen["rename"]} <= {refused, read_only}
    assert seen["streams"] == ["/io/in", "/io/out", "/io/err"]
    assert seen["open"] == [0, 1, 2, 3], "the last is the folder that is being listed"
    assert [(mount[1], mount[2].split(",")[0]) for mount in seen["mounts"]] == [("/io", "ro"), ("/io/sh", "ro")]


def test_a_player_gets_the_same_environment_over_both(backend, attached, fifos, image, policy, listen):
    """The shell that becomes the player adds nothing to it, and takes nothing away."""
    assert report(backend, image, policy, listen)["environment"] == _over_attach(attached, image, policy, listen)


def _over_attach(attached, image, policy, listen) -> dict:
    sandbox_spec = SandboxSpec(
        replace(image, command=("python3", "-I", "-S", "-c", "import json, os; print(json.dumps(dict(os.environ)))")),
        policy,
        "test",
        "job",
    )
    sandbox = attached.start(sandbox_spec)
    try:
        return listen.report(sandbox)
    finally:
        sandbox.stop()


def test_the_fifos_go_with_their_sandbox(backend, fifos, image, policy):
    """Each sandbox has a folder of its own, and none is left."""
    ours = f"sparring-fifos-*-{os.getpid()}-*/*/in"
    before = set(Path(tempfile.gettempdir()).glob(ours))
    sandbox_spec = SandboxSpec(replace(image, command=("python3", "silent.py")), policy, "test", "job")
    sandboxes = [backend.start(sandbox_spec) for _ in range(2)]
    try:
        assert len(set(Path(tempfile.gettempdir()).glob(ours)) - before) == 2
        assert all(isinstance(sandbox._stream, FifoStream) for sandbox in sandboxes)
    finally:
        for sandbox in sandboxes:
            sandbox.stop()
    assert set(Path(tempfile.gettempdir()).glob(ours)) == before


def test_a_player_that_writes_to_the_engines_pipes_harms_nobody(backend, fifos, image, policy, listen):
    """It can reach those of its init program: what it writes there is no answer, and keeps no one waiting."""
    flood = (
        "import os, time\n"
        "try:\n"
        "    for handle in (1, 2):\n"
        "        pipe = os.open(f'/proc/1/fd/{handle}', os.O_WRONLY | os.O_NONBLOCK)\n"
        "        for _ in range(400):\n"
        "            try:\n"
        "                os.write(pipe, bytes(4096))\n"
        "            except BlockingIOError:\n"
        "                time.sleep(0.001)\n"
        "except OSError:\n"
        "    pass\n"
        "os.write(1, b'answer')\n"
        "time.sleep(600)\n"
    )
    sandbox_spec = SandboxSpec(replace(image, command=("python3", "-I", "-S", "-c", flood)), policy, "test", "job")
    sandbox = backend.start(sandbox_spec)
    try:
        assert listen.exactly(sandbox, 6, seconds=60) == b"answer"
        assert sandbox.receive(soon(0.2)) is None
    finally:
        assert sandbox.stop().ending is Ending.STOPPED


@pytest.mark.parametrize("command", [("/nowhere/to-be-found",), ("to-be-found-nowhere",)])
def test_a_program_that_is_not_there_says_so(backend, fifos, image, policy, listen, command):
    """Admission refuses such an image; where one plays all the same it has crashed, with the shell's reason."""
    sandbox = backend.start(SandboxSpec(replace(image, command=command), policy, "test", "job"))
    assert listen.end(sandbox) == b""
    end = sandbox.stop()
    assert (end.ending, end.code) == (Ending.CRASHED, 127)
    assert b"not found" in end.stderr


def test_a_player_without_fifos_plays_over_the_attach_stream(attached, image, policy, listen):
    """Large answers, its stderr and the way it ended arrive the same."""
    words = (
        "import os, sys\nfor _ in range(3): os.write(1, os.read(0, 1))\nos.write(1, bytes(3 << 20))\nsys.exit('why')"
    )
    sandbox_spec = SandboxSpec(replace(image, command=("python3", "-I", "-S", "-c", words)), policy, "test", "job")
    sandbox = attached.start(sandbox_spec)
    assert isinstance(sandbox._stream, Attachment)
    assert sandbox.send(b"abc", soon(30))
    assert listen.end(sandbox) == b"abc" + bytes(3 << 20)
    end = sandbox.stop()
    assert (end.ending, end.code, end.stderr) == (Ending.CRASHED, 1, b"why\n")
    assert (end.stdin_bytes, end.stdout_bytes, end.stderr_bytes) == (3, 3 + (3 << 20), 4)


def test_a_player_killed_by_others_is_lost_over_the_attach_stream_too(attached, image, policy, engine):
    """The attribution of an end does not depend on what carries the bytes."""
    run = f"killed-{secrets.token_hex(4)}"
    sandbox = attached.start(SandboxSpec(replace(image, command=("python3", "silent.py")), policy, run, "job"))
    label(engine, run)[0].kill()
    with pytest.raises(SandboxLost, match="somebody") as caught:
        sandbox.receive(soon(20))
    assert not isinstance(caught.value, AmbiguousExit)
    sandbox.stop()
    assert label(engine, run) == []


def test_an_engine_that_does_not_see_our_files_gets_no_fifos(image, policy, listen, tmp_path, monkeypatch, backend):
    """The probe finds that out, with its reason, and players keep the attach stream."""
    fresh = docker_backend.DockerBackend(BackendSettings(tmp_path))
    monkeypatch.setattr(PlayerFifos, "mounts", (("/io", "/nowhere/to-be-seen"),))
    sandbox = fresh.start(SandboxSpec(replace(image, command=("python3", "echo.py")), policy, "test", "job"))
    try:
        assert isinstance(sandbox._stream, Attachment)
        assert sandbox.send(b"x", soon(30))
        assert listen.exactly(sandbox, 1) == b"x"
    finally:
        sandbox.stop()
    assert "bind source path does not exist" in fresh._pipes.refusal(RUNTIME, fresh._require_fifos)


def test_a_runtime_that_swallows_fifos_gets_none(image, policy, listen, tmp_path, monkeypatch, backend, engine):
    """Where a container starts and never answers, the probe ends it, and players keep the attach stream."""
    monkeypatch.setattr(pipe_folders, "PROBE_SECONDS", 1.0)
    monkeypatch.setattr(pipe_folders, "_PROBE_LINE", b"another line\nthan the shell says back\n")
    fresh = docker_backend.DockerBackend(BackendSettings(tmp_path))
    sandbox = fresh.start(SandboxSpec(replace(image, command=("python3", "echo.py")), policy, "test", "job"))
    try:
        assert isinstance(sandbox._stream, Attachment)
        assert sandbox.send(b"x", soon(30))
        assert listen.exactly(sandbox, 1) == b"x"
    finally:
        sandbox.stop()
    assert "did not answer over FIFOs" in fresh._pipes.refusal(RUNTIME, fresh._require_fifos)
    check = next(check for check in fresh.diagnose() if check.name == "docker: pipes")
    assert check.status == "warn"
    assert "attach stream" in check.detail
    assert check.remedy


def test_a_player_without_an_init_program_keeps_the_attach_stream(backend, image, policy, listen):
    """Nobody would keep the engine's pipes, whose end is that of the container."""
    sandbox_spec = SandboxSpec(
        replace(image, command=("python3", "echo.py")), replace(policy, init=False), "test", "job"
    )
    sandbox = backend.start(sandbox_spec)
    try:
        assert isinstance(sandbox._stream, Attachment)
        assert sandbox.send(b"x", soon(30))
        assert listen.exactly(sandbox, 1) == b"x"
    finally:
        sandbox.stop()
