"""The checks of `sparring doctor` on an engine's description of itself."""

from collections.abc import Mapping
from typing import Any

from orchestrator.domain.text import printable
from orchestrator.sandboxes.base import Check, CheckStatus


def engine_checks(info: Mapping[str, Any]) -> list[Check]:
    """Returns checks of the engine's version, default seccomp profile and warnings, from `docker info`."""
    options = [str(option) for option in info.get("SecurityOptions") or []]
    seccomp = next((option for option in options if option.startswith("name=seccomp")), "")
    filtered = seccomp != "" and "unconfined" not in seccomp
    version, cgroup = info.get("ServerVersion", "?"), info.get("CgroupVersion", "1")
    warnings = [str(warning) for warning in info.get("Warnings") or [] if "limit" in str(warning)]
    return [
        Check("docker: engine", CheckStatus.OK, f"{version}, cgroup v{cgroup}, {info.get('Driver')}"),
        Check(
            "docker: default seccomp",
            CheckStatus.OK if filtered else CheckStatus.FAIL,
            seccomp or "none",
            "" if filtered else "start the engine with its default seccomp profile",
        ),
        *(
            Check("docker: warning", CheckStatus.WARN, printable(warning), "see the engine's manual")
            for warning in warnings
        ),
    ]
