"""Gives each sandbox a user id that no other live sandbox has, and computes the limit on open files."""

import errno
import resource
import socket
import threading
from pathlib import Path

from orchestrator.errors import SandboxLost

_lock = threading.Lock()
_names: dict[int, int] = {}
"""The user ids of this process, each with the file descriptor of its bound socket, which stays open until exit."""
_uids_in_use: set[int] = set()


def take_uid(first: int) -> int:
    """Returns the lowest user id from `first` up that no live sandbox of any orchestrator on this machine has.

    Some kernel counters are per user, and could pass data from one sandbox to another. A process that takes an id binds
    an abstract socket whose name contains it. No other process can bind that name until the first one ends, so only
    this process can reuse an id that it released. This does not cover orchestrators in other network namespaces, nor
    sandboxes that a killed orchestrator left, until they are swept.

    Raises:
        SandboxLost: this process may open no more files, or not bind sockets.
    """
    with _lock:
        uid = first
        while uid in _uids_in_use or not _is_ours(uid):
            uid += 1
        _uids_in_use.add(uid)
        return uid


def release_uid(uid: int) -> None:
    """Makes a user id available again to this process."""
    _uids_in_use.discard(uid)


def _is_ours(uid: int) -> bool:
    """Returns whether this process has bound the name of a user id; binds it if no other process has."""
    if uid not in _names and (name_socket := _bind_name(uid)) is not None:
        _names[uid] = name_socket.detach()
    return uid in _names


def _bind_name(uid: int) -> socket.socket | None:
    """Returns a socket bound to the name of a user id, None while another process has it."""
    try:
        name_socket = socket.socket(socket.AF_UNIX)
    except OSError as error:
        raise SandboxLost(f"a user id cannot be taken: {error}; raise this process's limit on open files") from error
    try:
        name_socket.bind(f"\0sparring-uid-{uid}")
    except OSError as error:
        name_socket.close()
        if error.errno != errno.EADDRINUSE:
            raise SandboxLost(f"user id {uid} cannot be taken: {error}; let this process name sockets") from error
        return None
    return name_socket


def max_open_files() -> int:
    """Returns the largest limit on open files that this process can set."""
    kernel = int(Path("/proc/sys/fs/nr_open").read_text("ascii"))
    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], kernel)
