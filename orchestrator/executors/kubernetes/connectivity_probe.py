"""The work of a probe inside its pod: it tries to reach targets, listens, or writes to the volume.

Its report goes into the container's termination message, which the API shows to everybody who may read pods: it needs
neither volume nor network.
"""

import errno
import json
import os
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.domain.machine_counter_files import MACHINE_COUNTER_FILES
from orchestrator.domain.text import printable
from orchestrator.errors import StoreFault, UsageError

MAX_REPORT_BYTES = 4096
"""Bytes of a termination message that a kubelet keeps."""
LISTENER_NAME = "listener"
MAX_NAME_LENGTH = 40
MAX_TARGETS = 16
"""The most targets of one probe, so that its report fits into `MAX_REPORT_BYTES`."""
KUBELET_PORT = 10250
"""A port on which something listens on every node."""
_REFUSAL_ERRNOS = frozenset({errno.ECONNREFUSED, errno.ECONNRESET})
_DNS_NAME = "kubernetes.default.svc.cluster.local"


class Reachability(StrEnum):
    """The result of an attempt to reach a target."""

    CONNECTED = "connected"
    """The target answered."""
    REFUSED = "refused"
    """The connection was refused: by the target, or by a network that refuses instead of dropping."""
    SILENT = "silent"
    """Nothing came back, or there is no route."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target of a probe: tried over TCP by a connection, over UDP by a question to a name server."""

    name: str
    protocol: Literal["tcp", "udp"]
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}={self.protocol}:{self.host}:{self.port}"


class TargetResult(BaseModel):
    """The result for one target; `detail` is the operating system's message."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(max_length=MAX_NAME_LENGTH)
    reachability: Reachability
    detail: str = Field(default="", max_length=80)


class ProbeReport(BaseModel):
    """The report of a probe at its end.

    `results`: of its targets, in their order. `nameservers`: those of its own resolv.conf. `write_seconds`: seconds
    that writing and reading back took. `missing_files`: files that should be on the volume and are not. `error`: why it
    could not do its work. `counters`: the files with counters of the whole machine that it could read, None if it did
    not try.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    results: list[TargetResult] = []
    nameservers: list[str] = Field(default=[], max_length=8)
    write_seconds: float | None = None
    missing_files: list[str] = []
    counters: list[str] | None = Field(default=None, max_length=len(MACHINE_COUNTER_FILES))
    error: str = ""


def counters(root: Path = Path("/")) -> list[str]:
    """Returns the files with counters of the whole machine that can be read here: a masked one is empty or missing."""
    return [path for path in MACHINE_COUNTER_FILES if _first(root / path.lstrip("/"))]


def _first(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as file:
        return file.read(1)
    return b""


def parse_target(text: str) -> Target:
    """Returns the target that is written `NAME=tcp:HOST:PORT` or `NAME=udp:HOST:PORT`. Raises UsageError."""
    name, _, rest = text.partition("=")
    protocol, _, place = rest.partition(":")
    host, _, port = place.rpartition(":")
    if protocol not in {"tcp", "udp"} or not name or len(name) > MAX_NAME_LENGTH or not host or not port.isdecimal():
        syntax = f"NAME=tcp:HOST:PORT, or udp for a name server; NAME has at most {MAX_NAME_LENGTH} characters"
        raise UsageError(f"{printable(text)}: give {syntax}")
    return Target(name, "tcp" if protocol == "tcp" else "udp", host, int(port))


def targets_from_environment(environment: Mapping[str, str]) -> list[Target]:
    """Returns the targets in a pod's environment: the API server, and the pod's node if `NODE_ADDRESS` is set."""
    targets = []
    if host := environment.get("KUBERNETES_SERVICE_HOST"):
        targets.append(Target("api", "tcp", host, int(environment.get("KUBERNETES_SERVICE_PORT", "443"))))
    if host := environment.get("NODE_ADDRESS"):
        targets.append(Target("node", "tcp", host, KUBELET_PORT))
    return targets


def try_target(target: Target, seconds: float) -> TargetResult:
    """Tries to reach a target, for at most `seconds`."""
    try:
        if target.protocol == "tcp":
            socket.create_connection((target.host, target.port), timeout=seconds).close()
        else:
            _query_dns(target.host, target.port, seconds)
    except OSError as error:
        answer = Reachability.REFUSED if error.errno in _REFUSAL_ERRNOS else Reachability.SILENT
        return TargetResult(
            name=target.name, reachability=answer, detail=(error.strerror or str(error) or "timed out")[:80]
        )
    return TargetResult(name=target.name, reachability=Reachability.CONNECTED)


def _query_dns(host: str, port: int, seconds: float) -> None:
    """Asks a name server for an address; returns after any answer."""
    head = struct.pack(">HHHHHH", secrets.randbits(16), 0x0100, 1, 0, 0, 0)
    labels = b"".join(bytes([len(label)]) + label.encode() for label in _DNS_NAME.split("."))
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as asking:
        asking.settimeout(seconds)
        asking.connect(address)
        asking.send(head + labels + b"\0" + struct.pack(">HH", 1, 1))
        asking.recv(512)


def parse_listeners(text: str) -> list[Target]:
    """Returns the targets in `HOST,HOST:PORT`: all addresses of a pod, with the same port. Raises UsageError."""
    hosts, _, port = text.rpartition(":")
    return [parse_target(f"{LISTENER_NAME}-{n}=tcp:{host}:{port}") for n, host in enumerate(hosts.split(","), 1)]


def accept_connections(places: Iterable[Target], seconds: float) -> int:
    """Accepts connections on all of these places for `seconds`; returns how many there were.

    Raises:
        UsageError: it cannot listen on one of them.
    """
    until, count = time.monotonic() + seconds, 0
    with ExitStack() as stack:
        ready = stack.enter_context(selectors.DefaultSelector())
        for place in places:
            family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
            try:
                server = stack.enter_context(socket.create_server((place.host, place.port), family=family))
            except OSError as error:
                raise UsageError(f"{place.host}:{place.port} cannot be listened on: {error}") from error
            server.setblocking(False)
            ready.register(server, selectors.EVENT_READ, server)
        while (left := until - time.monotonic()) > 0:
            for key, _ in ready.select(left):
                with suppress(OSError):  # the client has disconnected again
                    key.data.accept()[0].close()
                    count += 1
    return count


def try_until_connected(target: Target, seconds: float) -> TargetResult:
    """Tries repeatedly until the target is reached or `seconds` are over, because its listener may start later."""
    until = time.monotonic() + seconds
    while True:
        tried = try_target(target, 1.0)
        if tried.reachability is Reachability.CONNECTED or time.monotonic() >= until:
            return tried
        time.sleep(0.1)


def read_nameservers(resolver: Path) -> list[str]:
    """Returns the name servers that a resolv.conf names, at most eight."""
    try:
        lines = resolver.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [line.split()[1] for line in lines if line.startswith("nameserver") and len(line.split()) > 1][:8]


def time_volume_write(folder: Path) -> float:
    """Writes a file as controllers and drivers do, reads and removes it; returns the seconds. Raises StoreFault."""
    started_at = time.monotonic()
    path, bytes_ = folder / f".probe-{secrets.token_hex(8)}", os.urandom(2**20)
    fresh = path.with_suffix(".new")
    try:
        with fresh.open("xb") as file:
            file.write(bytes_)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        same = path.read_bytes() == bytes_
    except OSError as error:
        raise StoreFault(f"{folder} cannot be written as user {os.getuid()}: {error.strerror or error}") from error
    finally:
        for left in (fresh, path):
            with suppress(OSError):
                left.unlink()
    if not same:
        raise StoreFault(f"{folder} does not give back what was written")
    return time.monotonic() - started_at


def find_missing_files(folder: Path, names: Iterable[str], seconds: float) -> list[str]:
    """Waits up to `seconds` until all of these files are in a folder; returns those that are not."""
    until = time.monotonic() + seconds
    while (lacking := [name for name in names if not (folder / name).is_file()]) and time.monotonic() < until:
        time.sleep(0.1)
    return lacking


def write_report(report: ProbeReport, place: Path) -> None:
    """Writes a probe's report to the file that the kubelet reads. Raises StoreFault."""
    text = report.model_dump_json()
    if len(text) > MAX_REPORT_BYTES:
        text = json.dumps({"error": f"{len(text)} bytes are too many; try fewer targets at a time"})
    try:
        place.write_text(text, "utf-8")
    except OSError as error:
        raise StoreFault(f"{place} cannot be written: {error.strerror or error}") from error


def try_targets(targets: Iterable[Target], seconds: float) -> list[TargetResult]:
    """Tries all targets at once, because some networks apply a policy only some seconds after a pod's start.

    Raises:
        UsageError: there are more than `MAX_TARGETS`.
    """
    target_list = list(targets)
    if len(target_list) > MAX_TARGETS:
        raise UsageError(f"{len(target_list)} targets; a probe tries at most {MAX_TARGETS}")
    with ThreadPoolExecutor(MAX_TARGETS) as pool:
        return list(pool.map(lambda target: try_target(target, seconds), target_list))
