"""Which failed pods fail their Job: `podFailurePolicy`.

Jobs, "Pod failure policy": rules are tried in order, the first that matches decides; containers that ended with 0
never match.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """The policy's verdict on a failed pod: whether it counts, and the message if it fails the Job."""

    counts: bool
    fails: str | None = None


def judge(policy: dict[str, Any] | None, pod: dict[str, Any]) -> Verdict:
    """Returns the verdict on a failed pod; without a matching rule it counts."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        found = _matched(rule, pod["status"])
        if found is None:
            continue
        if rule["action"] == "FailJob":
            subject = f"Container {found[0]} for pod {name}" if found[1] else f"Pod {name}"
            did = f"failed with exit code {found[1]}" if found[1] else f"has condition {found[0]}"
            return Verdict(counts=True, fails=f"{subject} {did} matching FailJob rule at index {index}")
        return Verdict(counts=rule["action"] != "Ignore")
    return Verdict(counts=True)


def _matched(rule: dict[str, Any], status: dict[str, Any]) -> tuple[str, int] | None:
    """Returns the container and its exit code, or the condition and 0, that a rule matches."""
    if codes := rule.get("onExitCodes"):
        for container in _ended(status):
            code = container["state"]["terminated"]["exitCode"]
            meant = code and codes.get("containerName") in {None, container["name"]}
            if meant and (code in codes["values"]) == (codes["operator"] == "In"):
                return container["name"], code
        return None
    for condition in status.get("conditions") or ():
        for pattern in rule.get("onPodConditions") or ():
            if (condition["type"], condition["status"]) == (pattern["type"], pattern.get("status", "True")):
                return condition["type"], 0
    return None


def _ended(status: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in ("containerStatuses", "initContainerStatuses"):
        yield from (each for each in status.get(part) or () if "terminated" in each.get("state", {}))
