"""Gives each sandbox a user id that no other live sandbox has, and says how many files a sandbox may have open."""

import errno
import resource
import socket
import threading
from pathlib import Path

from orchestrator.errors import SandboxLost

_lock = threading.Lock()
_names: dict[int, int] = {}
"""The user ids that this process has, with the socket that keeps each from others: a descriptor, open to the end."""
_uids_in_use: set[int] = set()


def take_uid(first: int) -> int:
    """Returns a user id from `first` up that no other live sandbox has, whichever orchestrator here started it.

    Some kernel counters are per user, and could pass data from one sandbox to another. A process that takes an id binds
    an abstract socket whose name contains it. No other process can bind that name until the first one ends, so an id
    that was given back is taken again by this process only. This does not cover orchestrators in other network
    namespaces, nor what a killed one left, until that is swept.

    Raises:
        SandboxLost: this process may open no more files.
    """
    with _lock:
        uid = first
        while uid in _uids_in_use or not _is_ours(uid):
            uid += 1
        _uids_in_use.add(uid)
        return uid


def release_uid(uid: int) -> None:
    """Takes a user id back."""
    _uids_in_use.discard(uid)


def _is_ours(uid: int) -> bool:
    """Returns whether this process has the name that stands for a user id, which it takes where nobody has it."""
    if uid not in _names and (name := _bind_name(uid)) is not None:
        _names[uid] = name.detach()
    return uid in _names


def _bind_name(uid: int) -> socket.socket | None:
    """Returns the name that stands for a user id, None while another process has it."""
    try:
        name = socket.socket(socket.AF_UNIX)
    except OSError as error:
        raise SandboxLost(f"a user id cannot be taken: {error}; raise this process's limit on open files") from error
    try:
        name.bind(f"\0sparring-uid-{uid}")
    except OSError as error:
        name.close()
        if error.errno != errno.EADDRINUSE:
            raise SandboxLost(f"user id {uid} cannot be taken: {error}; let this process name sockets") from error
        return None
    return name


def max_open_files() -> int:
    """Returns the largest limit on open files that this process can give."""
    kernel = int(Path("/proc/sys/fs/nr_open").read_text("ascii"))
    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], kernel)
