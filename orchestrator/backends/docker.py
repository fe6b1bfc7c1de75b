"""Players in containers, through a Docker engine on this machine: the backend for strangers' submissions.

A container has no network, a read-only root, a small /tmp in memory, no capabilities, a user id of its own, the
engine's seccomp profile, and limits on memory, processors, processes and open files; see `_container`. It is ended
and removed by `stop`, which makes sure. With runc it shares the host's kernel: an unknown kernel or GPU driver hole is
not contained, and it can read the host's load, uptime and processor model.

This is the one file that knows the `docker` library: its errors become ours here.
"""

import itertools
import os
import re
import resource
import secrets
import socket
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import docker
import requests
from docker.errors import APIError, DockerException, NotFound

from orchestrator.backends import _container, _probe
from orchestrator.backends._attach import Attachment
from orchestrator.backends._contained import Contained, Stillborn, remove
from orchestrator.backends._container import Host, ImageConfig
from orchestrator.backends._owner import Life, Owner
from orchestrator.backends.base import BackendSettings, Check, CheckStatus, Image, Order, Sandbox, Source
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, Problem, Rejected, SandboxLost, SparringError

_DEFAULT = "unix:///var/run/docker.sock"
_SECONDS = 60
_ENDING_SECONDS = 10
_OLDEST_API = (1, 41)
_START_ENGINE = "start the engine (`systemctl start docker`), or let your user reach its socket"
# A file where /tmp, the init program or the working directory has to be: the same on every try, so not ours to retry.
_UNFIT = re.compile(r"Cannot mkdir|to rootfs at|chdir to cwd|container init: mkdir")

_uids_lock = threading.Lock()
_uids: set[int] = set()


class Engine:
    """The engine's calls, with its errors translated. Connects at the first call; threads may share it."""

    def __init__(self) -> None:
        self._address = os.environ.get("DOCKER_HOST") or _DEFAULT
        self.path = self._address.removeprefix("unix://")
        self._lock = threading.Lock()
        self._clients: tuple[Any, Any] | None = None
        self._facts: Host | None = None

    def connect(self) -> tuple[Any, Any]:
        """Returns two docker.APIClient, the second with a short time-out, for endings. Raises BackendUnavailable."""
        with self._lock:
            self._knock()
            if self._clients is None:
                self._clients = self._connect()
                weakref.finalize(self, _close, self._clients)
            return self._clients

    def _knock(self) -> None:
        """Looks whether somebody listens; the library would leave a socket open behind each failure."""
        if not self._address.startswith("unix://"):
            raise BackendUnavailable(
                f"the engine's address is {printable(self._address)}; only an engine on this machine can play, over "
                "its unix socket: unset DOCKER_HOST, or set it to unix:///path"
            )
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(_ENDING_SECONDS)
                line.connect(self.path)
        except OSError as error:
            raise BackendUnavailable(f"no Docker engine listens at {self.path}: {error}; {_START_ENGINE}") from error

    def _connect(self) -> tuple[Any, Any]:
        try:
            general = docker.APIClient(self._address, version="auto", timeout=_SECONDS, max_pool_size=64)
            version = general.api_version
            endings = docker.APIClient(self._address, version=version, timeout=_ENDING_SECONDS, max_pool_size=64)
        except (DockerException, requests.RequestException) as error:
            raise BackendUnavailable(
                f"no Docker engine answers at {self._address}: {error}; {_START_ENGINE}"
            ) from error
        if tuple(int(part) for part in version.split(".")) < _OLDEST_API:
            raise BackendUnavailable(f"the engine speaks API {version}; Docker 20.10 or newer (API 1.41) is needed")
        for client in (general, endings):
            # The library keeps idle connections for each path, 25 of them, and a container's path never comes again.
            client.headers["Connection"] = "close"
        return general, endings

    def host(self) -> Host:
        """Returns what the engine's machine allows."""
        if self._facts is None:
            info = self.info()
            files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], _nr_open())
            self._facts = Host(int(info["NCPU"]), files, str(info.get("CgroupVersion", "1")) == "1")
        return self._facts

    def info(self) -> Mapping[str, Any]:
        """Returns what the engine says of itself."""
        with _translated("asking the engine"):
            found: Mapping[str, Any] = self.connect()[0].info()
            return found

    def architecture(self) -> str:
        """Returns the engine's architecture as images spell it."""
        with _translated("asking the engine"):
            return str(self.connect()[0].version().get("Arch", ""))

    def image(self, reference: str) -> Mapping[str, Any] | None:
        """Returns what the engine knows of an image, None when it has none of that name or id."""
        with _translated("looking for an image"):
            try:
                found: Mapping[str, Any] = self.connect()[0].inspect_image(reference)
            except NotFound:
                return None
            return found

    def images(self, pattern: str) -> list[Mapping[str, Any]]:
        """Returns the images with such a name."""
        with _translated("listing images"):
            return list(self.connect()[0].images(filters={"reference": pattern}))

    def create(self, options: Mapping[str, Any], name: str) -> str:
        """Creates a container and returns its id. The options go as they are: no proxy variables are added."""
        with _translated("creating a container"), _images_fault():
            return str(self.connect()[0].create_container_from_config(dict(options), name)["Id"])

    def attach(self, container: str) -> Attachment:
        """Attaches to a container that was not started yet."""
        return Attachment.open(self.path, self.connect()[0].api_version, container, _SECONDS)

    def start(self, container: str) -> None:
        """Starts it."""
        with _translated("starting a container"), _images_fault():
            self.connect()[0].start(container)

    def containers(self) -> list[Mapping[str, Any]]:
        """Returns every container that some orchestrator started here."""
        with _translated("listing containers"):
            return list(self.connect()[0].containers(all=True, filters={"label": _container.RUN}))

    def state(self, container: str) -> Mapping[str, Any] | None:
        """See `Containers.state`."""
        with _of_a_sandbox("looking at a container"):
            try:
                state: Mapping[str, Any] = self.connect()[1].inspect_container(container)["State"]
            except NotFound:
                return None
            return state

    def wait(self, container: str, seconds: float) -> None:
        """See `Containers.wait`."""
        with _of_a_sandbox("waiting for a container"), suppress(requests.ReadTimeout, NotFound):
            try:
                self.connect()[1].wait(container, timeout=seconds)
            except requests.ConnectionError as error:
                if "timed out" not in str(error):  # a time-out while the body is read arrives as this
                    raise

    def kill(self, container: str) -> None:
        """See `Containers.kill`."""
        with _of_a_sandbox("killing a container"):
            try:
                self.connect()[1].kill(container)
            except APIError as error:
                if error.status_code not in {requests.codes.not_found, requests.codes.conflict}:
                    raise

    def remove(self, container: str) -> None:
        """See `Containers.remove`."""
        with _of_a_sandbox("removing a container"):
            try:
                self.connect()[1].remove_container(container, force=True, v=True)
            except APIError as error:
                if error.status_code not in {requests.codes.not_found, requests.codes.conflict}:
                    raise

    def killed(self, container: str, since: float) -> bool:
        """See `Containers.killed`."""
        with _of_a_sandbox("asking for events"):
            wanted = {"container": [container], "event": ["kill"]}
            events = self.connect()[1].events(f"{since:.6f}", f"{time.time():.6f}", wanted, decode=True)
            return bool(list(events))  # to its end, which gives the connection back


class DockerBackend:
    """Opens players as containers."""

    name: ClassVar[str] = "docker"

    def __init__(self, settings: BackendSettings) -> None:  # noqa: ARG002  every backend is built the same way
        self._engine = Engine()
        self._configs: dict[str, ImageConfig] = {}

    def check(self) -> None:
        """Raises BackendUnavailable when no engine answers, or one that is too old or elsewhere."""
        try:
            self._engine.info()
        except SandboxLost as error:
            raise BackendUnavailable(f"{error}; {_START_ENGINE}") from error

    def examine(self) -> list[Check]:
        """Returns the engine's facts, and which limits really hold, tried in a container."""
        try:
            facts = _probe.facts(self._engine.info())
            images = self._engine.images(_probe.IMAGES)
        except BackendUnavailable as error:
            return [Check("docker: engine", CheckStatus.ABSENT, str(error), _START_ENGINE)]
        except SparringError as error:
            return [Check("docker: engine", CheckStatus.FAIL, str(error), "look at the engine's own log")]
        image = _probe.choose(images)
        return [*facts, *_probe.look(None if image is None else partial(self.start, _probe.order(image)))]

    def admit(self, source: Source) -> Image:
        """Returns the image by its id. Raises Rejected with everything that its configuration may not say."""
        reference = source.image
        if reference is None:
            raise Rejected("submission", [Problem("image", "missing", "build it, and give its name or id")])
        subject = f"image {printable(reference)}"
        if not _container.is_reference(reference):
            raise Rejected(
                subject, [Problem("image", "not the name or id of an image", "use a name like team/entry:1")]
            )
        found = self._engine.image(reference)
        if found is None:
            remedy = "build it (`make images` builds ours), or bring it with `docker load`; nothing is pulled"
            raise Rejected(subject, [Problem("image", "the engine does not have it", remedy)])
        config, problems = _container.read_config(found, self._engine.architecture())
        if problems:
            raise Rejected(subject, problems)
        self._configs[found["Id"]] = config
        return Image(digest=found["Id"], name=printable(reference), command=config.command)

    def start(self, order: Order) -> Sandbox:
        """Creates, attaches to and starts a container, in this order, so that nothing it writes is missed."""
        config = self._config(order.image)
        uid = _take_uid()
        container: str | None = None
        line: Attachment | None = None
        try:
            options = _container.container_options(order, config, uid, self._engine.host(), str(Owner.current()))
            container = self._engine.create(options, f"sparring-{secrets.token_hex(8)}")
            line = self._engine.attach(container)
            self._engine.start(container)
            return Contained(self._engine, container, line, partial(_uids.discard, uid))
        except _UnfitImageError as error:
            self._undo(container, line, uid)
            return Stillborn(str(error))
        except BaseException:
            with suppress(SparringError):  # the first error says more; a sweep finds what is left
                self._undo(container, line, uid)
            raise

    def sweep(self, *, keep: str | None = None) -> int:
        """Removes the containers of dead orchestrators; returns how many. What nobody can judge from here is spared."""
        here = Owner.current()
        removed = 0
        for container in self._engine.containers():
            labels = container.get("Labels") or {}
            owner = Owner.parse(labels.get(_container.OWNER, ""))
            if owner is not None and owner.life(here) is Life.DEAD and (keep is None or labels[_container.RUN] != keep):
                remove(self._engine, container["Id"])
                removed += 1
        return removed

    def _undo(self, container: str | None, line: Attachment | None, uid: int) -> None:
        if line is not None:
            line.close()
        if container is not None:
            remove(self._engine, container)
        _uids.discard(uid)

    def _config(self, image: Image) -> ImageConfig:
        """What is used of an image that was admitted, perhaps by an orchestrator before this one."""
        if image.digest not in self._configs:
            found = self._engine.image(image.digest) if _container.is_reference(image.digest) else None
            if found is None:
                raise SandboxLost(f"image {image.name} ({image.digest}) is gone from the engine; load it again")
            config, problems = _container.read_config(found)
            if problems and not image.command:
                raise Rejected(f"image {image.name}", problems)
            self._configs[image.digest] = config
        return self._configs[image.digest]


class _UnfitImageError(Exception):
    """The engine works, and cannot make a container of this image."""


@contextmanager
def _images_fault() -> Iterator[None]:
    """Tells an image whose files are in the way from an engine that fails."""
    try:
        yield
    except APIError as error:
        if _UNFIT.search(str(error.explanation)):
            raise _UnfitImageError(f"the image cannot be started: {error.explanation}") from error
        raise


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    """Turns the library's errors into ours."""
    try:
        yield
    except (DockerException, requests.RequestException) as error:
        raise SandboxLost(f"{doing}: the engine failed: {printable(str(error), 600)}") from error


def _close(clients: tuple[Any, Any]) -> None:
    for client in clients:
        client.close()


@contextmanager
def _of_a_sandbox(doing: str) -> Iterator[None]:
    """Turns every error into the loss of the sandbox that it is about."""
    try:
        with _translated(doing):
            yield
    except BackendUnavailable as error:
        raise SandboxLost(f"{doing}: {error}") from error


def _take_uid() -> int:
    """Returns a user id that no other live sandbox of this process has: some kernel counters are per user."""
    with _uids_lock:
        uid = next(number for number in itertools.count(_container.FIRST_UID) if number not in _uids)
        _uids.add(uid)
        return uid


def _nr_open() -> int:
    return int(Path("/proc/sys/fs/nr_open").read_text("ascii"))


plugin = DockerBackend
