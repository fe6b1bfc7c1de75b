"""Looks for anything of the host."""

import os
import socket
from pathlib import Path

from _report import attempt, report_all

SOCKETS = ("/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock")
FOLDERS = ("/host", "/mnt/host", "/rootfs", "/hostfs", "/var/lib/docker", "/var/lib/kubelet", "/run/containerd")
TOKENS = ("/var/run/secrets/kubernetes.io/serviceaccount/token", "/run/secrets")
KERNELS = ("/proc/", "/dev/", "/sys/")
OURS = ("/", "/proc", "/dev", "/sys", "/tmp", "/etc/resolv.conf", "/etc/hostname", "/etc/hosts", "/io", "/io/sh")
"""Where a sandbox has mounts; below `/io` its own FIFOs lie."""


def call(path: str) -> None:
    """Connects to a service's socket."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)


def is_of_driver(point: str, options: str) -> bool:
    """Returns whether a mount may be a library of the GPU's driver: a file, read-only, and only for who has a GPU."""
    return bool(os.environ.get("CUDA_VISIBLE_DEVICES")) and Path(point).is_file() and "ro" in options.split(",")


def mounted() -> str:
    """Returns what is mounted that a sandbox has no need of."""
    lines = [line.split()[4:6] for line in Path("/proc/self/mountinfo").read_text("ascii").splitlines()]
    points = [point for point, options in lines if not is_of_driver(point, options)]
    foreign = [p for p in points if p not in OURS and not p.startswith(KERNELS) and not p.endswith("/docker-init")]
    if not foreign:
        raise FileNotFoundError(2, "no foreign mounts")
    return ", ".join(foreign)


report_all(
    *(attempt(path, call, path) for path in SOCKETS),
    *(attempt(path, os.listdir, path) for path in FOLDERS),
    *(attempt(path, os.stat, path) for path in TOKENS),
    attempt("mounts", mounted),
    attempt("a file beside the FIFOs", os.mkfifo, "/io/new"),
    attempt("a FIFO of its own", os.open, "/io/in", os.O_WRONLY | os.O_NONBLOCK),
    attempt("an answer of another", os.open, "/io/out", os.O_RDONLY | os.O_NONBLOCK),
    attempt("init's root", os.listdir, "/proc/1/root/root"),
)
