"""Which system calls a player may make: the profile in seccomp.json, as the engine takes it.

The profile allows what is listed and refuses everything else with EPERM, or with ENOSYS where libraries probe for a
call and go on without it. It is for 64-bit calls only: with the engine's own profile a 64-bit process reaches the
32-bit calls, and through them sockets of every family. Each group says why, the refused ones too; docs/seccomp.md
lists them for a reviewer.
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
    found: Mapping[str, Any] = json.loads(text)
    return found


def _groups() -> list[dict[str, Any]]:
    """Returns the groups of calls without the reasons."""
    return [
        {key: value for key, value in group.items() if key != "comment"} for group in seccomp_document()["syscalls"]
    ]


@cache
def oci_profile() -> Mapping[str, Any]:
    """Returns the profile as the OCI runtime specification has it, for this machine's architecture.

    Raises:
        BackendUnavailable: the profile does not know this architecture.
    """
    document, machine = seccomp_document(), platform.machine()
    known = {found["architecture"] for found in document["archMap"]}
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
    """Returns the profile as one line of JSON, without the reasons: about 15 KB that go with every container."""
    return json.dumps({**seccomp_document(), "syscalls": _groups()}, separators=(",", ":"))
