"""A hook for the test cluster that runs the containers of probes as processes of this machine.

A container's command is run with this Python; its literal variables, and those of the pod's addresses, are in its
environment and put into its words, as a kubelet does. What it writes to its termination message can be read. Nothing
leaves this machine: name servers are read from a file of the test, and pods have the loopback's address.
"""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .rendering import expand


class Process:
    """A container's process."""

    def __init__(self, words: list[str], environment: dict[str, str], told: Path) -> None:
        self._told = told
        with told.with_suffix(".log").open("wb") as file:
            self._process = subprocess.Popen(words, env=environment, stdout=file, stderr=file)

    def wait(self) -> int:
        """Waits for the end; returns the exit status."""
        return self._process.wait()

    def send_signal(self, number: int) -> None:
        """Signals it, if it is there."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def message(self) -> str:
        """Returns what it wrote to its termination message."""
        return self._told.read_text("utf-8") if self._told.exists() else ""


@dataclass
class Containers:
    """The hook. `volumes` are folders of this machine by the claims' names, `more` is every container's environment."""

    folder: Path
    volumes: dict[str, Path] = field(default_factory=dict)
    more: dict[str, str] = field(default_factory=dict)
    started: list[list[str]] = field(default_factory=list)

    def __call__(self, container: dict[str, Any], pod: dict[str, Any]) -> Process:
        """Starts a container."""
        addresses = ",".join(each["ip"] for each in pod["status"].get("podIPs") or [{"ip": "127.0.0.1"}])
        known = {"status.podIPs": addresses, "status.hostIP": "127.0.0.1"}
        environment = dict(self.more)
        for each in container.get("env") or ():
            source = (each.get("valueFrom") or {}).get("fieldRef")
            environment[each["name"]] = known[source["fieldPath"]] if source else each.get("value", "")
        told = self.folder / f"{pod['metadata']['name']}-{container['name']}.told"
        places = {"python3": sys.executable, container["terminationMessagePath"]: str(told)}
        claims = {
            each["name"]: self.volumes[each["persistentVolumeClaim"]["claimName"]]
            for each in pod["spec"].get("volumes") or ()
            if "persistentVolumeClaim" in each
        }
        places |= {each["mountPath"]: str(claims[each["name"]]) for each in container.get("volumeMounts") or ()}
        words = [*container["command"], *container["args"]]
        words = [places.get(word, expand(word, environment)) for word in words]
        if "--control" in words:
            words += ["--resolver", str(self.folder / "resolv.conf")]
        self.started.append(words)
        return Process(words, environment | {"PYTHONPATH": str(Path(__file__).resolve().parents[3])}, told)
