"""The kubelets' hook for the pods of `executors.kubernetes.pod_manifest`: each container is a process tree.

The programs are the real ones: `images/runner/prepare` and `play` with the runner image's static shell, `python -m
orchestrator pod play`, and a submission's player. A machine starts its first driver with an interpreter of its own, and
the others as forks of a process that has made their imports. Each program gets process and mount namespaces of its own,
its user, no capabilities and a seccomp filter; not its own network or file system, and no limits. Volumes are folders,
and a path of a mount is replaced in the words of a command. Needs root.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.executors.kubernetes.pod_processes.forks import Fork
from tests.kubernetes_api.processes import signal_group

REPOSITORY = Path(__file__).resolve().parents[4]
RUNNER = REPOSITORY / "images" / "runner"
SHELL = REPOSITORY / "build" / "images" / "shell" / "sh"
"""Made by images/build.sh."""
ENTER = Path(__file__).with_name("enter.py")


class Tree:
    """A container: a process group whose first process is another namespace's process 1."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path | None, output: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--", *command],
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def wait(self) -> int:
        """Waits for the end; returns the exit status."""
        return self._process.wait()

    def send_signal(self, number: int) -> None:
        """Ends the container on SIGKILL. Of SIGTERM nobody hears: its first process catches none."""
        if number == signal.SIGKILL:
            signal_group(self._process, number)

    def log(self) -> bytes:
        """Returns what was written so far."""
        return self._output.read_bytes()


class Machine:
    """The hook.

    Args:
        folder: where volumes in memory and the output of containers go.
        claims: the folder that stands for each claim.
        images: the folder in which an image's command is started, by the image's digest.
    """

    def __init__(self, folder: Path, claims: Mapping[str, Path], images: Mapping[str, Path]) -> None:
        self._folder, self._claims, self._images = folder, claims, images
        self._lock = threading.Lock()
        self.started: list[tuple[str, str]] = []
        """The Job and the name of every container that was started."""
        self.refused: set[str] = set()
        """The digests of images whose players the runtime does not start."""
        self._runner = folder / "runner"
        self._runner.mkdir(parents=True)
        for path in (SHELL, RUNNER / "prepare", RUNNER / "play"):
            shutil.copy(path, self._runner / path.name)
        (self._runner / "sh").chmod(0o755)
        self._runner.chmod(0o755)

    def __call__(self, container: dict[str, Any], pod: dict[str, Any]) -> Tree | Fork:
        """Starts a container."""
        job = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
        mounts = {mount["mountPath"]: self._mounted(mount, pod) for mount in container.get("volumeMounts") or ()}
        mounts["/opt/runner"] = self._runner
        words = [_replaced(word, mounts) for word in (*container["command"], *(container.get("args") or ()))]
        words = [sys.executable if word in {"python", "python3"} else word.replace("$$(", "$(") for word in words]
        security = container.get("securityContext") or {}
        player = container["name"] in {"player", "attack"}
        if player and container["image"].rpartition("@")[2] in self.refused:
            raise OSError("no such device")
        user = security["runAsUser"] if player else 0
        environment = {each["name"]: each.get("value", "") for each in container.get("env") or ()}
        environment = {name: _replaced(value, mounts) for name, value in environment.items()}
        environment |= {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PYTHONPATH"] = str(REPOSITORY / "images" / "_base" / "python" if player else REPOSITORY)
        output = self._folder / f"{pod['metadata']['uid']}-{container['name']}.log"
        driver = container["name"] == "driver"
        with self._lock:
            later = "driver" in {name for _, name in self.started}
            self.started.append((job, container["name"]))
        if driver and later:
            return Fork(words[3:], environment, output)
        return Tree(
            [sys.executable, str(ENTER), str(Path(sys.base_prefix).resolve()), str(user), *words],
            environment,
            self._images[container["image"].rpartition("@")[2]] if player else None,
            output,
        )

    def _mounted(self, mount: dict[str, Any], pod: dict[str, Any]) -> Path:
        """Returns the folder that a mount shows."""
        volume = next(each for each in pod["spec"]["volumes"] if each["name"] == mount["name"])
        if claim := volume.get("persistentVolumeClaim"):
            folder = self._claims[claim["claimName"]] / mount.get("subPath", "")
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        folder = self._folder / pod["metadata"]["uid"] / mount["name"]
        if not folder.exists():
            folder.mkdir(parents=True)
            folder.chmod(0o1777)  # as a kubelet mounts a volume in memory
        return folder


def _replaced(word: str, mounts: Mapping[str, Path]) -> str:
    """Returns a word with the path of a mount at its beginning replaced by the folder that is mounted there."""
    for place, folder in sorted(mounts.items(), key=lambda item: -len(item[0])):
        if word == place or word.startswith(f"{place}/"):
            return f"{folder}{word[len(place) :]}"
    return word
