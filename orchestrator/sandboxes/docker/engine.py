"""The calls to a Docker engine on this machine.

Only this module calls the `docker` library; `engine_errors` translates the library's errors.
"""

import base64
import json
import os
import threading
import time
import weakref
from collections.abc import Generator, Mapping
from contextlib import suppress
from typing import Any

import docker
import requests
from docker.errors import DockerException, NotFound

from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable
from orchestrator.sandboxes.docker import container_runtimes, container_spec
from orchestrator.sandboxes.docker.attach_stream import Attachment
from orchestrator.sandboxes.docker.engine_errors import (
    engine_errors,
    ignore_ended_container,
    image_errors,
    sandbox_errors,
)
from orchestrator.sandboxes.docker.engine_liveness import EngineConnection, LivenessMonitor
from orchestrator.sandboxes.docker.engine_socket import connect_socket
from orchestrator.sandboxes.linux import uid_pool
from orchestrator.sandboxes.linux.host_limits import HostLimits

_DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
_TIMEOUT_SECONDS = 60
_ENDING_TIMEOUT_SECONDS = 10
_MIN_API_VERSION = (1, 41)
START_ENGINE_REMEDY = "start the engine (`systemctl start docker`), or let your user reach its socket"


class DockerEngine:
    """A client of the engine. It connects at the first call; threads may share it."""

    def __init__(self) -> None:
        self._address = os.environ.get("DOCKER_HOST") or _DEFAULT_ADDRESS
        self.path = self._address.removeprefix("unix://")
        self._lock = threading.Lock()
        self._clients: tuple[Any, Any] | None = None
        self._host: HostLimits | None = None
        self._architecture: str | None = None
        self._liveness = LivenessMonitor()
        weakref.finalize(self, self._liveness.close)

    def is_listening(self) -> bool:
        """Returns whether a program listens on the engine's unix socket."""
        try:
            self._require_listening()
        except BackendUnavailable:
            return False
        return True

    def connect(self) -> tuple[Any, Any]:
        """Returns two APIClients; the second, to end containers, has a short timeout. Raises BackendUnavailable."""
        with self._lock:
            self._require_listening()
            if self._clients is None:
                self._clients = self._connect()
                weakref.finalize(self, _close_clients, self._clients)
            return self._clients

    def _require_listening(self) -> None:
        """Raises BackendUnavailable if no program listens; the library would leak a socket at each failure."""
        if not self._address.startswith("unix://"):
            raise BackendUnavailable(
                f"the engine's address is {printable(self._address)}; only an engine on this machine can play, over "
                "its unix socket: unset DOCKER_HOST, or set it to unix:///path"
            )
        try:
            connect_socket(self.path, _ENDING_TIMEOUT_SECONDS).close()
        except OSError as error:
            raise BackendUnavailable(
                f"no Docker engine listens at {self.path}: {error}; {START_ENGINE_REMEDY}"
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
                f"no Docker engine answers at {self._address}: {error}; {START_ENGINE_REMEDY}"
            ) from error
        if tuple(int(part) for part in version.split(".")) < _MIN_API_VERSION:
            raise BackendUnavailable(f"the engine speaks API {version}; Docker 20.10 or newer (API 1.41) is needed")
        for client in (general, endings):
            # The library keeps up to 25 idle connections for each path, and no later request has a container's path.
            client.headers["Connection"] = "close"
            # Proxies and ~/.netrc are not for a unix socket, and the library looks for them at each call.
            client.trust_env = False
        return general, endings

    def host(self) -> HostLimits:
        """Returns the limits of the engine's machine."""
        if self._host is None:
            info = self.info()
            files = uid_pool.max_open_files()
            first, cgroupfs = str(info.get("CgroupVersion", "1")) == "1", info.get("CgroupDriver") == "cgroupfs"
            self._host = HostLimits(int(info["NCPU"]), files, first, cgroupfs, container_runtimes.runtime_names(info))
        return self._host

    def info(self) -> Mapping[str, Any]:
        """Returns the engine's description of itself (`docker info`)."""
        with engine_errors("asking the engine"):
            info: Mapping[str, Any] = self.connect()[0].info()
            return info

    def architecture(self) -> str:
        """Returns the engine's architecture in the notation of images, such as `amd64`."""
        if self._architecture is None:
            with engine_errors("asking the engine"):
                self._architecture = str(self.connect()[0].version().get("Arch", ""))
        return self._architecture

    def image(self, reference: str) -> Mapping[str, Any] | None:
        """Returns the engine's description of an image, None if it has none with that name or id."""
        with engine_errors("looking for an image"):
            try:
                image: Mapping[str, Any] = self.connect()[0].inspect_image(reference)
            except NotFound:
                return None
            return image

    def version(self) -> str:
        """Returns the version of the engine's API that this client uses."""
        return str(self.connect()[0].api_version)

    def images(self, pattern: str) -> list[Mapping[str, Any]]:
        """Returns the images whose name matches a pattern."""
        with engine_errors("listing images"):
            return list(self.connect()[0].images(filters={"reference": pattern}))

    def history(self, image: str) -> list[Mapping[str, Any]]:
        """See `InspectEngine.history`."""
        with engine_errors("asking for layers"):
            return list(self.connect()[0].history(image))

    def export(self, container: str) -> Generator[bytes, None, None]:
        """See `InspectEngine.export`."""
        with engine_errors("exporting a container"):
            yield from self.connect()[0].export(container)

    def path_stat(self, container: str, path: str) -> Mapping[str, Any] | None:
        """Returns Docker's `PathStat` of a path in a container, which need not run; None if nothing is there.

        The result is empty if the engine cannot resolve the path, such as for a link to itself.
        """
        client = self.connect()[0]
        address = client._url("/containers/{0}/archive", container)  # noqa: SLF001  the library has no call for this request
        with engine_errors("looking at a container's files"):
            answer = client.head(address, params={"path": path}, timeout=_TIMEOUT_SECONDS)
        if answer.status_code == requests.codes.not_found:
            return None
        header = answer.headers.get("X-Docker-Container-Path-Stat")
        fields: Mapping[str, Any] = json.loads(base64.b64decode(header)) if answer.ok and header else {}
        return fields

    def read_file_archive(self, container: str, path: str) -> Generator[bytes, None, None]:
        """Yields a tar stream, in pieces, of one file of a container."""
        with engine_errors("reading a container's file"):
            stream, _ = self.connect()[0].get_archive(container, path, chunk_size=None)
            yield from stream

    def create(self, options: Mapping[str, Any], name: str) -> str:
        """Creates a container and returns its id. It sends the options unchanged, without proxy variables."""
        with engine_errors("creating a container"), image_errors():
            return str(self.connect()[0].create_container_from_config(dict(options), name)["Id"])

    def liveness_connection(self) -> EngineConnection:
        """Returns a connection that stays open until the engine's process ends."""
        return self._liveness.open_connection(self.path, self.version(), _ENDING_TIMEOUT_SECONDS)

    def attach(self, container: str, *, only_stderr: bool = False) -> Attachment:
        """Attaches to a container that was not started yet."""
        return Attachment.open(self.path, self.version(), container, _TIMEOUT_SECONDS, only_stderr=only_stderr)

    def start(self, container: str) -> None:
        """Starts a container."""
        with engine_errors("starting a container"), image_errors():
            self.connect()[0].start(container)

    def containers(self) -> list[Mapping[str, Any]]:
        """Returns every container that an orchestrator created."""
        with engine_errors("listing containers"):
            return list(self.connect()[0].containers(all=True, filters={"label": container_spec.RUN_LABEL}))

    def container_ids(self) -> set[str]:
        """Returns the ids of all containers of the engine, including those of other programs."""
        with engine_errors("listing containers"):
            return {container["Id"] for container in self.connect()[0].containers(all=True)}

    def nameless_images(self, label: str) -> list[Mapping[str, Any]]:
        """See `CopyEngine.nameless_images`."""
        with engine_errors("listing images"):
            return list(self.connect()[0].images(filters={"label": label, "dangling": True}))

    def inspect(self, container: str) -> Mapping[str, Any] | None:
        """Returns the engine's description of a container, None if there is no such container."""
        with sandbox_errors("looking at a container"):
            try:
                inspected: Mapping[str, Any] = self.connect()[1].inspect_container(container)
            except NotFound:
                return None
            return inspected

    def state(self, container: str) -> Mapping[str, Any] | None:
        """See `ContainerEngine.state`."""
        inspected = self.inspect(container)
        return None if inspected is None else inspected["State"]

    def wait(self, container: str, seconds: float) -> None:
        """See `ContainerEngine.wait`."""
        with sandbox_errors("waiting for a container"), suppress(requests.ReadTimeout, NotFound):
            try:
                self.connect()[1].wait(container, timeout=seconds)
            except requests.ConnectionError as error:
                if "timed out" not in str(error):  # so the library reports a timeout while it reads the body
                    raise

    def kill(self, container: str) -> None:
        """See `ContainerEngine.kill`."""
        with sandbox_errors("killing a container"), ignore_ended_container():
            self.connect()[1].kill(container)

    def remove(self, container: str) -> None:
        """See `ContainerEngine.remove`."""
        with (
            sandbox_errors("removing a container"),
            ignore_ended_container(),
            suppress(requests.ReadTimeout),
        ):  # after a timeout the engine continues the removal
            self.connect()[1].remove_container(container, force=True, v=True)

    def was_killed(self, container: str, since: float) -> bool:
        """See `ContainerEngine.was_killed`."""
        with sandbox_errors("asking for events"):
            filters = {"container": [container], "event": ["kill"]}
            until = max(since, time.time())  # the engine refuses `until` before `since`, as after a clock was set back
            events = self.connect()[1].events(f"{since:.6f}", f"{until:.6f}", filters, decode=True)
            return bool(list(events))  # reads to the end, which returns the connection to the pool


def _close_clients(clients: tuple[Any, Any]) -> None:
    for client in clients:
        client.close()
