"""The calls to a Docker engine on this machine, with its errors translated.

This is the one file that knows the `docker` library: its errors become ours here.
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
    """The engine's calls, with its errors translated. Connects at the first call; threads may share it."""

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
        """Returns whether somebody listens where the engine is expected, on this machine."""
        try:
            self._require_listening()
        except BackendUnavailable:
            return False
        return True

    def connect(self) -> tuple[Any, Any]:
        """Returns two docker.APIClient, the second with a short time-out, for endings. Raises BackendUnavailable."""
        with self._lock:
            self._require_listening()
            if self._clients is None:
                self._clients = self._connect()
                weakref.finalize(self, _close_clients, self._clients)
            return self._clients

    def _require_listening(self) -> None:
        """Looks whether somebody listens; the library would leave a socket open behind each failure."""
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
            # The library keeps idle connections for each path, 25 of them, and a container's path never comes again.
            client.headers["Connection"] = "close"
        return general, endings

    def host(self) -> HostLimits:
        """Returns what the engine's machine allows."""
        if self._host is None:
            info = self.info()
            files = uid_pool.max_open_files()
            first, cgroupfs = str(info.get("CgroupVersion", "1")) == "1", info.get("CgroupDriver") == "cgroupfs"
            self._host = HostLimits(int(info["NCPU"]), files, first, cgroupfs, container_runtimes.runtime_names(info))
        return self._host

    def info(self) -> Mapping[str, Any]:
        """Returns what the engine says of itself."""
        with engine_errors("asking the engine"):
            found: Mapping[str, Any] = self.connect()[0].info()
            return found

    def architecture(self) -> str:
        """Returns the engine's architecture as images spell it."""
        if self._architecture is None:
            with engine_errors("asking the engine"):
                self._architecture = str(self.connect()[0].version().get("Arch", ""))
        return self._architecture

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
        """See `InspectEngine.history`."""
        with engine_errors("asking for layers"):
            return list(self.connect()[0].history(image))

    def export(self, container: str) -> Generator[bytes, None, None]:
        """See `InspectEngine.export`."""
        with engine_errors("exporting a container"):
            yield from self.connect()[0].export(container)

    def path_stat(self, container: str, path: str) -> Mapping[str, Any] | None:
        """Returns what a container has at a path (Docker's `PathStat`), None for nothing; starts and reads nothing.

        It is empty where the engine cannot tell, such as for a link that leads to itself.
        """
        client = self.connect()[0]
        address = client._url("/containers/{0}/archive", container)  # noqa: SLF001  it has no call for this request
        with engine_errors("looking at a container's files"):
            answer = client.head(address, params={"path": path}, timeout=_TIMEOUT_SECONDS)
        if answer.status_code == requests.codes.not_found:
            return None
        header = answer.headers.get("X-Docker-Container-Path-Stat")
        fields: Mapping[str, Any] = json.loads(base64.b64decode(header)) if answer.ok and header else {}
        return fields

    def read_file_archive(self, container: str, path: str) -> Generator[bytes, None, None]:
        """Yields a file of a container as a tar stream in pieces."""
        with engine_errors("reading a container's file"):
            stream, _ = self.connect()[0].get_archive(container, path, chunk_size=None)
            yield from stream

    def create(self, options: Mapping[str, Any], name: str) -> str:
        """Creates a container and returns its id. The options go as they are: no proxy variables are added."""
        with engine_errors("creating a container"), image_errors():
            return str(self.connect()[0].create_container_from_config(dict(options), name)["Id"])

    def liveness_connection(self) -> EngineConnection:
        """Returns a line that is open as long as this life of the engine goes on."""
        return self._liveness.open_connection(self.path, self.version(), _ENDING_TIMEOUT_SECONDS)

    def attach(self, container: str, *, only_stderr: bool = False) -> Attachment:
        """Attaches to a container that was not started yet."""
        return Attachment.open(self.path, self.version(), container, _TIMEOUT_SECONDS, only_stderr=only_stderr)

    def start(self, container: str) -> None:
        """Starts it."""
        with engine_errors("starting a container"), image_errors():
            self.connect()[0].start(container)

    def containers(self) -> list[Mapping[str, Any]]:
        """Returns every container that some orchestrator started here."""
        with engine_errors("listing containers"):
            return list(self.connect()[0].containers(all=True, filters={"label": container_spec.RUN_LABEL}))

    def container_ids(self) -> set[str]:
        """Returns the ids of all containers of the engine, also of those that other programs made."""
        with engine_errors("listing containers"):
            return {found["Id"] for found in self.connect()[0].containers(all=True)}

    def images_with_label(self, label: str) -> list[Mapping[str, Any]]:
        """See `CopyEngine.images_with_label`."""
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
        """See `ContainerEngine.state`."""
        found = self.inspect(container)
        return None if found is None else found["State"]

    def wait(self, container: str, seconds: float) -> None:
        """See `ContainerEngine.wait`."""
        with sandbox_errors("waiting for a container"), suppress(requests.ReadTimeout, NotFound):
            try:
                self.connect()[1].wait(container, timeout=seconds)
            except requests.ConnectionError as error:
                if "timed out" not in str(error):  # a time-out while the body is read arrives as this
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
        ):  # it goes on at it
            self.connect()[1].remove_container(container, force=True, v=True)

    def was_killed(self, container: str, since: float) -> bool:
        """See `ContainerEngine.was_killed`."""
        with sandbox_errors("asking for events"):
            filters = {"container": [container], "event": ["kill"]}
            until = max(since, time.time())  # a clock that was set back would be an error of the engine
            events = self.connect()[1].events(f"{since:.6f}", f"{until:.6f}", filters, decode=True)
            return bool(list(events))  # to its end, which gives the connection back


def _close_clients(clients: tuple[Any, Any]) -> None:
    for client in clients:
        client.close()
