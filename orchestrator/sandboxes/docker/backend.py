"""Players in containers, through a Docker engine on this machine: the backend for strangers' submissions.

A container has no network, a read-only root, a small /tmp in memory, no capabilities, a user id of its own, our
seccomp profile, and limits on memory, processors, processes and open files; see `_container`. It is ended
and removed by `stop`, which makes sure. With runc it shares the host's kernel: an unknown kernel or GPU driver hole is
not contained, and it can read the host's load, uptime and processor model.

This is the one file that knows the `docker` library: its errors become ours here.
"""

import base64
import json
import os
import secrets
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import docker
import requests
import structlog
from docker.errors import DockerException, NotFound

from orchestrator.domain.images import ImageConfig, is_image_reference, read_image_config
from orchestrator.domain.policy import Runtime
from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, Problem, Rejected, SandboxLost, SparringError, UsageError
from orchestrator.sandboxes.base import (
    BackendSettings,
    Check,
    CheckStatus,
    Image,
    ImageFacts,
    ImageSource,
    Sandbox,
    SandboxSpec,
)
from orchestrator.sandboxes.docker import (
    cleanup,
    constant_files,
    container_runtimes,
    container_spec,
    masked_paths,
    self_probe,
    uid_pool,
    verify_policy,
)
from orchestrator.sandboxes.docker.attach_stream import Attachment
from orchestrator.sandboxes.docker.constant_files import Constants
from orchestrator.sandboxes.docker.container_sandbox import ContainerSandbox, PartialContainer
from orchestrator.sandboxes.docker.container_spec import HostLimits
from orchestrator.sandboxes.docker.engine_errors import (
    RuntimeFailedError,
    UnfitImageError,
    UnseenFileError,
    engine_errors,
    ignore_ended_container,
    image_errors,
    sandbox_errors,
)
from orchestrator.sandboxes.docker.engine_liveness import EngineConnection, LivenessMonitor
from orchestrator.sandboxes.docker.images import image_copy
from orchestrator.sandboxes.docker.images.store import DockerImageStore
from orchestrator.sandboxes.docker.verify_policy import PolicyNotAppliedError, RequestedPolicy
from orchestrator.sandboxes.image_files import file_checks, image_facts
from orchestrator.sandboxes.linux.owner import Owner
from orchestrator.sandboxes.linux.parent_cgroup import ParentCgroup
from orchestrator.sandboxes.never_started import NeverStarted

_log = structlog.get_logger()
_DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
_TIMEOUT_SECONDS = 60
_ENDING_TIMEOUT_SECONDS = 10
_MIN_API_VERSION = (1, 41)
_START_ENGINE_REMEDY = "start the engine (`systemctl start docker`), or let your user reach its socket"


class DockerEngine:
    """The engine's calls, with its errors translated. Connects at the first call; threads may share it."""

    def __init__(self) -> None:
        self._address = os.environ.get("DOCKER_HOST") or _DEFAULT_ADDRESS
        self.path = self._address.removeprefix("unix://")
        self._lock = threading.Lock()
        self._clients: tuple[Any, Any] | None = None
        self._facts: HostLimits | None = None
        self._watch = LivenessMonitor()
        weakref.finalize(self, self._watch.close)

    def connect(self) -> tuple[Any, Any]:
        """Returns two docker.APIClient, the second with a short time-out, for endings. Raises BackendUnavailable."""
        with self._lock:
            self._knock()
            if self._clients is None:
                self._clients = self._connect()
                weakref.finalize(self, _close_clients, self._clients)
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
                line.settimeout(_ENDING_TIMEOUT_SECONDS)
                line.connect(self.path)
        except OSError as error:
            raise BackendUnavailable(
                f"no Docker engine listens at {self.path}: {error}; {_START_ENGINE_REMEDY}"
            ) from error

    def _connect(self) -> tuple[Any, Any]:
        try:
            general = docker.APIClient(self._address, version="auto", timeout=_TIMEOUT_SECONDS, max_pool_size=64)
            version = general.api_version
            endings = docker.APIClient(
                self._address, version=version, timeout=_ENDING_TIMEOUT_SECONDS, max_pool_size=64
            )
        except (DockerException, requests.RequestException) as error:
            raise BackendUnavailable(
                f"no Docker engine answers at {self._address}: {error}; {_START_ENGINE_REMEDY}"
            ) from error
        if tuple(int(part) for part in version.split(".")) < _MIN_API_VERSION:
            raise BackendUnavailable(f"the engine speaks API {version}; Docker 20.10 or newer (API 1.41) is needed")
        for client in (general, endings):
            # The library keeps idle connections for each path, 25 of them, and a container's path never comes again.
            client.headers["Connection"] = "close"
        return general, endings

    def host(self) -> HostLimits:
        """Returns what the engine's machine allows."""
        if self._facts is None:
            info = self.info()
            files = uid_pool.max_open_files()
            first, cgroupfs = str(info.get("CgroupVersion", "1")) == "1", info.get("CgroupDriver") == "cgroupfs"
            self._facts = HostLimits(int(info["NCPU"]), files, first, cgroupfs, container_runtimes.runtime_names(info))
        return self._facts

    def info(self) -> Mapping[str, Any]:
        """Returns what the engine says of itself."""
        with engine_errors("asking the engine"):
            found: Mapping[str, Any] = self.connect()[0].info()
            return found

    def architecture(self) -> str:
        """Returns the engine's architecture as images spell it."""
        with engine_errors("asking the engine"):
            return str(self.connect()[0].version().get("Arch", ""))

    def image(self, reference: str) -> Mapping[str, Any] | None:
        """Returns what the engine knows of an image, None when it has none of that name or id."""
        with engine_errors("looking for an image"):
            try:
                found: Mapping[str, Any] = self.connect()[0].inspect_image(reference)
            except NotFound:
                return None
            return found

    def version(self) -> str:
        """Returns the version of the engine's interface that is spoken."""
        return str(self.connect()[0].api_version)

    def images(self, pattern: str) -> list[Mapping[str, Any]]:
        """Returns the images with such a name."""
        with engine_errors("listing images"):
            return list(self.connect()[0].images(filters={"reference": pattern}))

    def history(self, image: str) -> list[Mapping[str, Any]]:
        """See `Looked.history`."""
        with engine_errors("asking for layers"):
            return list(self.connect()[0].history(image))

    def export(self, container: str) -> Generator[bytes, None, None]:
        """See `Looked.export`."""
        with engine_errors("exporting a container"):
            yield from self.connect()[0].export(container)

    def entry(self, container: str, path: str) -> Mapping[str, Any] | None:
        """Returns what a container has at a path (Docker's `PathStat`), None for nothing; starts and reads nothing.

        It is empty where the engine cannot tell, such as for a link that leads to itself.
        """
        client = self.connect()[0]
        address = client._url("/containers/{0}/archive", container)  # noqa: SLF001  it has no call for this request
        with engine_errors("looking at a container's files"):
            answer = client.head(address, params={"path": path}, timeout=_TIMEOUT_SECONDS)
        if answer.status_code == requests.codes.not_found:
            return None
        told = answer.headers.get("X-Docker-Container-Path-Stat")
        found: Mapping[str, Any] = json.loads(base64.b64decode(told)) if answer.ok and told else {}
        return found

    def first(self, container: str, path: str) -> Generator[bytes, None, None]:
        """Yields a file of a container as a tar stream in pieces."""
        with engine_errors("reading a container's file"):
            stream, _ = self.connect()[0].get_archive(container, path, chunk_size=None)
            yield from stream

    def create(self, options: Mapping[str, Any], name: str) -> str:
        """Creates a container and returns its id. The options go as they are: no proxy variables are added."""
        with engine_errors("creating a container"), image_errors():
            return str(self.connect()[0].create_container_from_config(dict(options), name)["Id"])

    def witness(self) -> EngineConnection:
        """Returns a line that is open as long as this life of the engine goes on."""
        return self._watch.witness(self.path, self.version(), _ENDING_TIMEOUT_SECONDS)

    def attach(self, container: str) -> Attachment:
        """Attaches to a container that was not started yet."""
        return Attachment.open(self.path, self.version(), container, _TIMEOUT_SECONDS)

    def start(self, container: str) -> None:
        """Starts it."""
        with engine_errors("starting a container"), image_errors():
            self.connect()[0].start(container)

    def containers(self) -> list[Mapping[str, Any]]:
        """Returns every container that some orchestrator started here."""
        with engine_errors("listing containers"):
            return list(self.connect()[0].containers(all=True, filters={"label": container_spec.RUN_LABEL}))

    def ids(self) -> set[str]:
        """Returns the ids of all containers, whoever made them."""
        with engine_errors("listing containers"):
            return {found["Id"] for found in self.connect()[0].containers(all=True)}

    def labelled(self, label: str) -> list[Mapping[str, Any]]:
        """See `_copying.Engine.labelled`."""
        with engine_errors("listing images"):
            return list(self.connect()[0].images(filters={"label": label}))

    def inspect(self, container: str) -> Mapping[str, Any] | None:
        """Returns what the engine says of a container, None when there is none."""
        with sandbox_errors("looking at a container"):
            try:
                found: Mapping[str, Any] = self.connect()[1].inspect_container(container)
            except NotFound:
                return None
            return found

    def state(self, container: str) -> Mapping[str, Any] | None:
        """See `Containers.state`."""
        found = self.inspect(container)
        return None if found is None else found["State"]

    def wait(self, container: str, seconds: float) -> None:
        """See `Containers.wait`."""
        with sandbox_errors("waiting for a container"), suppress(requests.ReadTimeout, NotFound):
            try:
                self.connect()[1].wait(container, timeout=seconds)
            except requests.ConnectionError as error:
                if "timed out" not in str(error):  # a time-out while the body is read arrives as this
                    raise

    def kill(self, container: str) -> None:
        """See `Containers.kill`."""
        with sandbox_errors("killing a container"), ignore_ended_container():
            self.connect()[1].kill(container)

    def remove(self, container: str) -> None:
        """See `Containers.remove`."""
        with (
            sandbox_errors("removing a container"),
            ignore_ended_container(),
            suppress(requests.ReadTimeout),
        ):  # it goes on at it
            self.connect()[1].remove_container(container, force=True, v=True)

    def killed(self, container: str, since: float) -> bool:
        """See `Containers.killed`."""
        with sandbox_errors("asking for events"):
            wanted = {"container": [container], "event": ["kill"]}
            until = max(since, time.time())  # a clock that was set back would be an error of the engine
            events = self.connect()[1].events(f"{since:.6f}", f"{until:.6f}", wanted, decode=True)
            return bool(list(events))  # to its end, which gives the connection back


class DockerBackend:
    """Opens players as containers."""

    name: ClassVar[str] = "docker"

    def __init__(self, settings: BackendSettings) -> None:  # noqa: ARG002  every backend is built the same way
        self._engine = DockerEngine()
        self._constants = Constants()
        self._configs: dict[str, ImageConfig] = {}
        self._left: deque[Callable[[], object]] = deque()  # what could not be ended while the engine was away

    def check(self, runtime: Runtime | None = None) -> None:
        """Raises BackendUnavailable when no engine answers, or one that is too old, elsewhere or lacks the runtime."""
        try:
            info = self._engine.info()
        except SandboxLost as error:
            raise BackendUnavailable(f"{error}; {_START_ENGINE_REMEDY}") from error
        container_runtimes.require_runtime(runtime or Runtime.RUNC, container_runtimes.runtime_names(info))

    def examine(self) -> list[Check]:
        """Returns the engine's facts, and which limits really hold, tried in a container."""
        try:
            info = self._engine.info()
            images = self._engine.images(self_probe.PROBE_IMAGE_PATTERN)
        except BackendUnavailable as error:
            said = str(error).removesuffix(f"; {_START_ENGINE_REMEDY}")
            return [Check("docker: engine", CheckStatus.ABSENT, said, _START_ENGINE_REMEDY)]
        except SparringError as error:
            return [Check("docker: engine", CheckStatus.FAIL, str(error), "look at the engine's own log")]
        image = self_probe.choose_image(images)
        runtimes = container_runtimes.diagnose_runtimes(info, image, self.start, self_probe.read_output)
        looked = self_probe.run_probe(None if image is None else partial(self.start, self_probe.probe_spec(image)))
        return [*self_probe.engine_checks(info), *runtimes, *looked]

    def admit(self, source: ImageSource) -> Image:
        """Returns the image by its id. Raises Rejected with everything that its configuration may not say."""
        reference = source.image
        if reference is None:
            raise Rejected("submission", [Problem("image", "missing", "build it, and give its name or id")])
        subject = f"image {printable(reference)}"
        if not is_image_reference(reference):
            raise Rejected(
                subject, [Problem("image", "not the name or id of an image", "use a name like team/entry:1")]
            )
        found = self._engine.image(reference)
        if found is None:
            remedy = "build it (`make images` builds ours), or bring it with `docker load`; nothing is pulled"
            raise Rejected(subject, [Problem("image", "the engine does not have it", remedy)])
        config, problems = read_image_config(found, self._engine.architecture())
        if not problems and found["Id"] not in self._configs:
            problems = self._inside(found, config)
        if problems:
            raise Rejected(subject, problems)
        self._configs[found["Id"]] = config
        return Image(digest=found["Id"], name=printable(reference), command=config.command)

    def fresh_copy(self, image: Image, run: str) -> Image:
        """Returns the image's files as another image, with inodes of its own; see `Backend.fresh_copy`."""
        config, found = self._config(image), self._engine.image(image.digest)
        if found is None:
            raise SandboxLost(f"image {image.name} ({image.digest}) is gone from the engine; load it again")
        labels = {container_spec.RUN_LABEL: run, container_spec.OWNER_LABEL: str(Owner.current())}
        copied = image_copy.copy_image(self._engine, found, labels)
        self._configs[copied] = config
        return replace(image, digest=copied, undo=partial(image_copy.remove_copy, self._engine, copied))

    def look_into(self, reference: str, *, files: bool = True, largest: int | None = None) -> ImageFacts:
        """Returns what an image is, without starting it; see `Backend.look_into`."""
        found = self._engine.image(reference) if is_image_reference(reference) else None
        if found is None:
            raise UsageError(f"the engine has no image {printable(reference)}; build it, or use `docker load`")
        config, problems = read_image_config(found, self._engine.architecture(), largest)
        if files and not problems:
            problems = self._inside(found, config)
            files = not problems  # an engine may wait without end for what lies in such an image
        return image_facts.inspect_image(self._engine, found, problems, _inspection_labels(), files=files)

    def _inside(self, image: Mapping[str, Any], config: ImageConfig) -> list[Problem]:
        """Returns what of an image's files keeps it from playing, whose configuration is as it should be."""
        try:
            return file_checks.image_file_problems(
                self._engine, image, config, self._engine.architecture(), _inspection_labels()
            )
        except (UnfitImageError, RuntimeFailedError) as error:
            return [Problem("image", str(error), "look at its files: no container can be made of it")]

    def workshop(self) -> DockerImageStore:
        """Returns where images are built and brought in."""
        return DockerImageStore(self._engine)

    def start(self, order: SandboxSpec) -> Sandbox:
        """Starts a player; one that its image or the runtime keeps from starting has ended before it began."""
        self._tidy()
        try:
            return self._make(order)
        except (UnfitImageError, RuntimeFailedError, PolicyNotAppliedError) as error:
            return self._once_more(order, error)

    def _once_more(self, order: SandboxSpec, error: Exception) -> Sandbox:
        """Tries a start again after a known image was started in the same way: whose fault the first failure was.

        Raises:
            SandboxLost: the known image fares no better, or there is none.
        """
        known = self_probe.choose_image(self._engine.images(self_probe.PROBE_IMAGE_PATTERN))
        if known is None and not isinstance(error, UnfitImageError):
            raise SandboxLost(f"{error}; there is no image of ours to compare it with: run `make images`") from error
        if known is not None:
            try:
                self._make(replace(order, image=replace(known, command=self_probe.WAIT_COMMAND))).stop()
            except (UnfitImageError, RuntimeFailedError, SandboxLost) as other:
                raise SandboxLost(f"{error}; nor can {known.name} be started: {other}") from error
        try:
            return self._make(order)
        except UnfitImageError as again:
            return NeverStarted(str(again))
        except (RuntimeFailedError, PolicyNotAppliedError) as again:
            return NeverStarted(f"{again}; others can be started as they should be", doubtful=True)

    def _make(self, order: SandboxSpec) -> Sandbox:
        """Creates, attaches to and starts a container, in this order, so that nothing it writes is missed."""
        try:
            return self._with(order, self._host(order))
        except UnseenFileError as error:
            _log.warning("constants_unseen", reason=str(error), remedy="/proc/meminfo and three more stay empty")
            self._constants.unseen()
            return self._with(order, self._host(order))

    def _host(self, order: SandboxSpec) -> HostLimits:
        """Returns what the machine allows, with what this player does not see and what it sees instead."""
        shown = order.policy.runtime is Runtime.RUNC and order.policy.masked_proc  # others have a /proc of their own
        constants = self._constants.sources(order.limits.memory) if shown else ()
        return replace(
            self._engine.host(), masks=masked_paths.masked_paths(gpu=order.device is not None), constants=constants
        )

    def _with(self, order: SandboxSpec, host: HostLimits) -> Sandbox:
        container_runtimes.require_runtime(order.policy.runtime, host.runtimes)
        config = self._config(order.image)
        owner = Owner.current()
        made = PartialContainer(uid_pool.take_uid(container_spec.FIRST_UID))
        try:
            made.account = ParentCgroup.open(owner, order.run, order.limits.memory) if host.cgroupfs else None
            parent = made.account.parent if made.account else None
            witness = self._engine.witness()
            options = container_spec.container_options(order, config, made.uid, host, str(owner), parent)
            made.container = name = f"sparring-{secrets.token_hex(8)}"  # an engine that dies now may have made it
            made.container = self._engine.create(options, name)
            made.line = self._engine.attach(made.container)
            self._engine.start(made.container)
            verify_policy.require_applied(RequestedPolicy(order, made.uid, host), self._engine.inspect(made.container))
            release = partial(uid_pool.release_uid, made.uid)
            return ContainerSandbox(
                self._engine, made.container, made.line, witness, made.account, release, self._left.append
            )
        except BaseException:
            with suppress(SparringError):  # the first error says more; what is left is tried again
                self._undo(made)
            raise

    def sweep(self, *, keep: str | None = None, ended: str | None = None) -> int:
        """Removes what dead orchestrators left, and what is left of our run that `ended`; returns how many things.

        What nobody can judge from here is spared.

        Raises:
            InfrastructureFault: something could not be removed; everything else was.
        """
        self._tidy()
        folders = constant_files.remove_dead_folders(Owner.current())
        return folders + cleanup.clean_up(self._engine, keep, ended)

    def _tidy(self) -> None:
        """Ends what could not be ended before. What cannot be ended now either is kept for the next time."""
        for _ in range(len(self._left)):
            with suppress(IndexError, SparringError):  # another thread came first; it is in the list again
                self._left.popleft()()

    def _undo(self, made: PartialContainer) -> None:
        try:
            made.undo(self._engine)
        except SandboxLost:
            self._left.append(partial(self._undo, made))
            raise

    def _config(self, image: Image) -> ImageConfig:
        """What is used of an image that was admitted, perhaps by an orchestrator before this one."""
        if image.digest not in self._configs:
            found = self._engine.image(image.digest) if is_image_reference(image.digest) else None
            if found is None:
                raise SandboxLost(f"image {image.name} ({image.digest}) is gone from the engine; load it again")
            config, problems = read_image_config(found)
            if problems and not image.command:
                raise Rejected(f"image {image.name}", problems)
            self._configs[image.digest] = config
        return self._configs[image.digest]


def _inspection_labels() -> dict[str, str]:
    """Returns the labels of a container that is only looked at."""
    return {container_spec.RUN_LABEL: "look", container_spec.OWNER_LABEL: str(Owner.current())}


def _close_clients(clients: tuple[Any, Any]) -> None:
    for client in clients:
        client.close()
