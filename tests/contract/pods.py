"""A pod without a cluster: its init container and its player's container on a Docker engine, connected as in a pod.

They share a folder in memory, which is read-only for the player. The caller of `start` takes the driver's part. All
else of the player's container is what the docker backend makes from the same policy, except the reaper: pods have none.
"""

import itertools
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import docker

from orchestrator.domain.images import read_image_config
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.executors.kubernetes.pod_manifest import FIFO_DIR, PLAYER_MESSAGE_PATH
from orchestrator.sandboxes.base import BackendSettings, Exit, Image, ImageSource, Sandbox, SandboxSpec, never_cancelled
from orchestrator.sandboxes.docker import container_spec
from orchestrator.sandboxes.linux.constant_files import ConstantFiles
from orchestrator.sandboxes.linux.host_limits import HostLimits
from orchestrator.sandboxes.pod import backend

RUNNER = "sparring/runner:cpu"
DRIVER = 10_002
MEMORY = "/dev/shm"  # noqa: S108  the host's file system in memory
_players = itertools.count(40_000)
_constants = ConstantFiles()


@dataclass
class Pod:
    """A pod. `folder` is the folder that its containers share, `player` the id of the player's container."""

    client: docker.DockerClient
    folder: Path
    player: str = ""

    @classmethod
    def prepared(cls, client: docker.DockerClient) -> "Pod":
        """Returns a pod whose init container has run."""
        folder = Path(tempfile.mkdtemp(prefix="sparring-test-pod-", dir=MEMORY))
        folder.chmod(0o1777)  # as a kubelet mounts a volume in memory
        client.containers.run(
            RUNNER,
            ["/opt/runner/prepare", FIFO_DIR],
            entrypoint=["/opt/runner/sh"],
            user=f"{DRIVER}:{DRIVER}",
            volumes={str(folder): {"bind": "/io", "mode": "rw"}},
            network_disabled=True,
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            remove=True,
        )
        return cls(client, folder)

    def another(self) -> "Pod":
        """Returns a copy of this prepared pod, in which nothing may have been played."""
        copy = Path(tempfile.mkdtemp(prefix="sparring-test-pod-", dir=MEMORY))
        subprocess.run(["cp", "--archive", "--no-target-directory", str(self.folder), str(copy)], check=True)
        return Pod(self.client, copy)

    @property
    def fifos(self) -> Path:
        """The folder with the FIFOs on this machine."""
        return self.folder / Path(FIFO_DIR).name

    @property
    def message(self) -> Path:
        """The node's file of the player's termination message."""
        return self.folder.with_suffix(".message")

    def play(
        self,
        sandbox_spec: SandboxSpec,
        weaken: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Starts the player's container with additional environment `variables`.

        `weaken` replaces parts of its host configuration, or its `User`.
        """
        info = self.client.info()
        first = str(info.get("CgroupVersion", "1")) == "1"
        host = HostLimits(info["NCPU"], sandbox_spec.limits.files, first, hosts=_constants.hosts())
        found = self.client.api.inspect_image(sandbox_spec.image.digest)
        config, problems = read_image_config(found)
        assert not problems or sandbox_spec.image.command, problems
        options = container_spec.container_options(sandbox_spec, config, next(_players), host)
        limits = sandbox_spec.limits
        numbers = (limits.files, max(limits.tmp, limits.shm), limits.pids)
        options["Entrypoint"] = [f"{FIFO_DIR}/sh", f"{FIFO_DIR}/play", *map(str, numbers), *options["Entrypoint"]]
        options["Env"] += [f"{name}={value}" for name, value in (variables or {}).items()]
        options |= dict.fromkeys(["AttachStdin", "AttachStdout", "AttachStderr", "OpenStdin", "StdinOnce"], False)
        self.message.touch()
        self.message.chmod(0o666)  # as a kubelet makes it
        options["HostConfig"] |= {
            "Binds": [f"{self.folder}:/io:ro", f"{self.message}:{PLAYER_MESSAGE_PATH}"],
            "Init": False,
        }
        for key, value in (weaken or {}).items():
            (options if key == "User" else options["HostConfig"])[key] = value
        self.player = self.client.api.create_container_from_config(options)["Id"]
        self.client.api.start(self.player)

    def state(self) -> Mapping[str, Any]:
        """Returns the engine's state of the player's container."""
        return self.client.api.inspect_container(self.player)["State"]

    def over(self, seconds: float) -> bool:
        """Returns whether the player's container ends by itself within `seconds`."""
        until = time.monotonic() + seconds
        while self.state()["Running"]:
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def backend(self) -> backend.PodBackend:
        """Returns the backend of this pod's driver."""
        return backend.PodBackend(BackendSettings(self.fifos))

    def delete(self) -> None:
        """Deletes the pod, as a controller does when the driver has ended. May be called twice."""
        if self.player:
            self.client.api.remove_container(self.player, force=True, v=True)
            self.player = ""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.message.unlink(missing_ok=True)


@dataclass
class Played:
    """The sandbox of a pod. `stop` checks that the player's container has ended and, if `passing`, deletes the pod."""

    pod: Pod
    line: Sandbox
    passing: bool = True
    exit: Exit | None = None

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:
        """Calls the backend's sandbox."""
        return self.line.send(data, deadline, cancelled)

    def receive(self, deadline: float) -> bytes | None:
        """Calls the backend's sandbox."""
        return self.line.receive(deadline)

    def stop(self) -> Exit:
        """Stops the backend's sandbox, and checks that this ended the player."""
        if self.exit is None:
            ended = self.line.stop()
            assert self.pod.over(1), "the player's container lives on after `stop`"
            if self.passing:
                self.pod.delete()
            self.exit = ended
        return self.line.stop()


@dataclass
class Pods:
    """The pod backend with a new pod for each start."""

    client: docker.DockerClient
    workspace: Path
    made: list[Pod] = field(default_factory=list)
    name: str = "pod"
    template: Pod | None = None
    """A pod that an init container prepared once, because its container takes as long to start as a player's."""

    def __post_init__(self) -> None:
        self._one = backend.PodBackend(BackendSettings(self.workspace))

    def require_available(self, runtime: Any = None, gpus: int = 0) -> None:
        """Raises nothing, because pods are made when they are needed."""

    def diagnose(self) -> list[Any]:
        """Returns the backend's diagnosis of this machine, which is no pod."""
        return self._one.diagnose()

    def admit(self, source: ImageSource) -> Image:
        """Calls the backend."""
        return self._one.admit(source)

    def clean_up(self, *, spare_run: str | None = None, ended_run: str | None = None) -> int:
        """Calls the backend."""
        return self._one.clean_up(spare_run=spare_run, ended_run=ended_run)

    def start(self, sandbox_spec: SandboxSpec) -> Played:
        """Makes a pod and starts its player."""
        pod = self.pod()
        try:
            pod.play(sandbox_spec)
            return Played(pod, pod.backend().start(sandbox_spec))
        except BaseException:
            pod.delete()
            raise

    def pod(self) -> Pod:
        """Returns a new pod without a player's container."""
        self.made.append(self.prepared().another())
        return self.made[-1]

    def prepared(self) -> Pod:
        """Returns the template; makes it at the first call."""
        self.template = self.template or Pod.prepared(self.client)
        return self.template

    def close(self) -> None:
        """Deletes every pod."""
        for pod in (*self.made, *([] if self.template is None else [self.template])):
            pod.delete()


@dataclass
class OnePod(Pods):
    """The pod backend with a single pod, as a driver has it: the first start starts the only player."""

    def start(self, sandbox_spec: SandboxSpec) -> Played:
        """Makes the pod at the first start."""
        if not self.made:
            self.pod().play(sandbox_spec)
        [pod] = self.made
        return Played(pod, pod.backend().start(sandbox_spec), passing=False)


def ordering(image: Image, run: str, policy: SandboxPolicy) -> Callable[..., SandboxSpec]:
    """Returns `sandbox_spec(player, arguments..., limits)` for the raw players of an image."""

    def sandbox_spec(player: str, *arguments: str, limits: Limits | None = None) -> SandboxSpec:
        words = ("python3", f"{player}.py", *arguments)
        return SandboxSpec(replace(image, command=words), replace(policy, limits=limits or Limits()), run, "job")

    return sandbox_spec
