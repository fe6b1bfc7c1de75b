"""Which system calls a player may make: the profile in seccomp.json, as the engine takes it.

The profile allows what is listed and refuses everything else with EPERM, or with ENOSYS where libraries probe for a
call and go on without it. It is for 64-bit calls only: with the engine's own profile a 64-bit process reaches the
32-bit calls, and through them sockets of every family. Each group says why, the refused ones too; docs/seccomp.md
lists them for a reviewer.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any


@cache
def seccomp_document() -> Mapping[str, Any]:
    """Returns seccomp.json, decoded."""
    text = resources.files(__package__).joinpath("seccomp.json").read_text("utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


@cache
def seccomp_profile() -> str:
    """Returns the profile as one line of JSON, without the reasons: about 15 KB that go with every container."""
    made = dict(seccomp_document())
    made["syscalls"] = [{key: value for key, value in group.items() if key != "comment"} for group in made["syscalls"]]
    return json.dumps(made, separators=(",", ":"))
