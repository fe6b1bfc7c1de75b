"""The system calls that a player may make: the profile in seccomp.json, in the formats of the engine and of OCI.

The profile allows the listed calls. It refuses all others with EPERM, or with ENOSYS if libraries probe for a call and
can do without it. It covers 64-bit calls only: under the engine's own profile a 64-bit process can make 32-bit calls,
and through them open sockets of every family. Each group has its reason, also the refused ones; docs/seccomp.md lists
them for a reviewer.
"""

import json
import platform
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from orchestrator.errors import BackendUnavailable


@cache
def seccomp_document() -> Mapping[str, Any]:
    """Returns seccomp.json, decoded."""
    text = resources.files(__package__).joinpath("seccomp.json").read_text("utf-8")
    document: Mapping[str, Any] = json.loads(text)
    return document


def _groups() -> list[dict[str, Any]]:
    """Returns the groups of calls without the reasons."""
    return [
        {key: value for key, value in group.items() if key != "comment"} for group in seccomp_document()["syscalls"]
    ]


@cache
def oci_profile() -> Mapping[str, Any]:
    """Returns the profile in the format of the OCI runtime specification, for this machine's architecture.

    Raises:
        BackendUnavailable: the profile does not cover this architecture.
    """
    document, machine = seccomp_document(), platform.machine()
    known = {entry["architecture"] for entry in document["archMap"]}
    architecture = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}.get(machine)
    if architecture not in known:
        raise BackendUnavailable(
            f"the seccomp profile has no system calls of {machine} processors; use another machine"
        )
    return {
        "defaultAction": document["defaultAction"],
        "defaultErrnoRet": document["defaultErrnoRet"],
        "architectures": [architecture],
        "syscalls": _groups(),
    }


@cache
def seccomp_profile() -> str:
    """Returns the engine's format as one line of JSON, without the reasons: about 15 KB for each container."""
    return json.dumps({**seccomp_document(), "syscalls": _groups()}, separators=(",", ":"))
