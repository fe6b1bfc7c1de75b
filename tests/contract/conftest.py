"""The backends under test, and the image with the raw players."""

import functools
import io
import json
import os
import secrets
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import docker
import pytest
from docker.errors import APIError

from orchestrator import plugins
from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.errors import BackendUnavailable
from orchestrator.sandboxes.base import Backend, BackendSettings, Image, ImageSource, Sandbox, SandboxSpec
from tests.engine_images import has_image
from tests.small_image import BASE, small_base_image

from .pods import RUNNER, Pods

PLAYERS = Path(__file__).with_name("players")
NAMES = plugins.plugin_names("sandboxes")
MARKS = {"docker": pytest.mark.docker, "pod": pytest.mark.docker, "runc": pytest.mark.docker}
DEVIATIONS = {
    ("pod", "test_sweep_removes_what_a_dead_run_left"): (
        "no process of the dead is found from inside a pod, and none has to be: the player of a driver that was killed "
        "is ended by its own container (test_fifo.py), and the pod goes with its Job"
    ),
}
"""The known deviations of backends, each with its reason, by backend and test. These tests are expected to fail."""
Play = Callable[..., Sandbox]
RUNTIME = Runtime(os.environ.get("SPARRING_TEST_RUNTIME", "runc"))
"""The runtime of containers. The engine that DOCKER_HOST names has to have it (docs/runtimes.md)."""


def pytest_collection_modifyitems(items) -> None:
    """Marks the known deviations as expected failures. One that passes now fails the test run."""
    for item in items:
        backend = getattr(item, "callspec", None) and item.callspec.params.get("backend")
        reason = DEVIATIONS.get((backend, getattr(item, "originalname", "")))
        if reason:
            item.add_marker(pytest.mark.xfail(strict=True, reason=reason))


@pytest.fixture(scope="session")
def engine(require) -> Iterator[docker.DockerClient]:
    """A client of the Docker engine, for checks that bypass the backend."""
    try:
        open_backend("docker", Path()).require_available()  # first: a failing library leaves its socket open
    except BackendUnavailable as error:
        require("docker", f"{error}; .ci/engine.sh starts one")
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="session")
def test_image(engine, require) -> str:
    """An image with python3, and with what the steps of a build call."""
    if not has_image(engine, BASE):
        require("docker", f"there is no {BASE}: make images")
    return small_base_image()


@pytest.fixture(scope="session")
def build(engine, test_image) -> Iterator[Callable[..., str]]:
    """Returns a function that builds an image of the raw players, with more Dockerfile lines, and returns its id."""
    made = []

    def build(more: str = "", tag: str | None = None) -> str:
        archive = io.BytesIO()
        recipe = (
            f'FROM {test_image}\nCOPY players /players\nWORKDIR /players\nENTRYPOINT ["python3", "echo.py"]\n{more}'
        )
        files = {"Dockerfile": recipe.encode()}
        files |= {f"players/{path.name}": path.read_bytes() for path in sorted(PLAYERS.glob("*.py"))}
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        archive.seek(0)
        image, _ = engine.images.build(fileobj=archive, custom_context=True, network_mode="none", tag=tag, forcerm=True)
        if tag is None:
            made.append(image.id)
        return image.id

    yield build
    for identity in made:
        with suppress(APIError):  # another test run made the same image and still needs it
            engine.images.remove(identity, force=True)


@pytest.fixture(scope="session")
def player_image(build) -> str:
    """The id of an image with the raw players. It stays in the engine, so that the next run can use it."""
    return build(tag="sparring-test/players")


@pytest.fixture(scope="session")
def pods(engine, require, tmp_path_factory) -> Iterator[Pods]:
    """Pods on this machine's engine."""
    if not has_image(engine, RUNNER):
        require("docker", f"there is no {RUNNER}: make images")
    made = Pods(engine, tmp_path_factory.mktemp("no-pod"))
    yield made
    made.close()


def open_backend(name: str, workspace: Path) -> Backend:
    """Returns the backend with a name."""
    return plugins.load_plugin("sandboxes", name)(BackendSettings(workspace))


@pytest.fixture(scope="session")
def open_once(tmp_path_factory) -> Callable[[str], Backend]:
    """Returns a function that returns the backend with a name. A new one on docker would start a container first."""
    return functools.cache(lambda name: open_backend(name, tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="module", params=[pytest.param(name, marks=MARKS.get(name, ())) for name in NAMES])
def backend(request, open_once, require) -> Backend:
    """Each backend in turn, ready to play."""
    if request.param == "pod":
        return request.getfixturevalue("pods")
    made = open_once(request.param)
    try:
        made.require_available(RUNTIME if request.param in {"docker", "runc"} else None)
    except BackendUnavailable as error:
        require(request.param, str(error))
    if request.param == "docker":
        made._pipes.refusal(RUNTIME, made._require_fifos)  # before a test changes what the engine says to a start
    return made


@pytest.fixture(scope="module")
def source(request, backend) -> ImageSource:
    """The source of the raw players, as a trusted submission of the organizers."""
    image = request.getfixturevalue("player_image") if backend.name in MARKS else None
    return ImageSource(folder=PLAYERS, image=image, command=("python3", "echo.py"), trusted=True)


@pytest.fixture(scope="module")
def image(backend, source) -> Image:
    """The admitted image of the raw players."""
    return backend.admit(source)


@pytest.fixture(scope="session")
def policy() -> SandboxPolicy:
    """The policy for strangers' submissions, with the tested runtime."""
    return SandboxPolicy(runtime=RUNTIME)


@pytest.fixture
def run() -> str:
    """The id of the run that this test's sandboxes belong to."""
    return f"test-{secrets.token_hex(8)}"


@pytest.fixture
def play(backend, image, run, policy) -> Iterator[Play]:
    """Returns a function that starts a raw player. All started players are stopped after the test."""
    started = []

    def play(player: str, *arguments: str, limits: Limits | None = None, command=None) -> Sandbox:
        words = command or ("python3", f"{player}.py", *arguments)
        sandbox_spec = SandboxSpec(
            replace(image, command=words), replace(policy, limits=limits or Limits()), run, "job"
        )
        sandbox = backend.start(sandbox_spec)
        started.append(sandbox)
        return sandbox

    yield play
    for sandbox in started:
        sandbox.stop()


@pytest.fixture(scope="session")
def listen() -> SimpleNamespace:
    """Functions that read a sandbox's output: `exactly(sandbox, count)`, `end(sandbox)` and `report(sandbox)`."""

    def exactly(sandbox: Sandbox, count: int, seconds: float = 30) -> bytes:
        heard = bytearray()
        deadline = time.monotonic() + seconds
        while len(heard) < count:
            data = sandbox.receive(deadline)
            assert data, f"{data!r} after {len(heard)} of {count} bytes"
            heard += data
        return bytes(heard)

    def end(sandbox: Sandbox, seconds: float = 30) -> bytes:
        heard = bytearray()
        deadline = time.monotonic() + seconds
        while data := sandbox.receive(deadline):
            heard += data
        assert data == b"", f"no end within {seconds} s"
        return bytes(heard)

    def report(sandbox: Sandbox, seconds: float = 30) -> dict:
        heard = bytearray()
        deadline = time.monotonic() + seconds
        while not heard.endswith(b"\n"):
            data = sandbox.receive(deadline)
            assert data, f"{data!r} after {bytes(heard)!r}"
            heard += data
        return json.loads(heard)

    return SimpleNamespace(exactly=exactly, end=end, report=report)


@pytest.fixture(scope="session")
def population() -> SimpleNamespace:
    """Finds processes on this machine, also in containers, by a word of their command line.

    `living(token)` returns their ids; `gone(token)` waits until there are none.
    """

    def living(token: str) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if token.encode() in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def gone(token: str, seconds: float = 3) -> bool:
        deadline = time.monotonic() + seconds
        while living(token):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    return SimpleNamespace(living=living, gone=gone)
