"""Conditions in the status of an object (API conventions, "Typical status properties")."""

from datetime import datetime
from typing import Any

from .clock import stamp


def condition(kind: str, state: str, reason: str = "", message: str = "") -> dict[str, Any]:
    """Returns a condition without its times."""
    made = {"type": kind, "status": state, "reason": reason, "message": message}
    return {name: value for name, value in made.items() if value}


def find(data: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """Returns a condition of an object, if it has it."""
    conditions = (data.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), None)


def is_true(data: dict[str, Any], kind: str) -> bool:
    """Whether an object has a condition that is true."""
    found = find(data, kind)
    return found is not None and found["status"] == "True"


def set_condition(data: dict[str, Any], wanted: dict[str, Any], now: datetime) -> bool:
    """Sets a condition of an object; returns whether that changed anything. Its time is that of its last turn."""
    conditions = data.setdefault("status", {}).setdefault("conditions", [])
    held = next((each for each in conditions if each["type"] == wanted["type"]), None)
    times = {"lastTransitionTime": stamp(now)}
    if data["kind"] == "Job":
        times["lastProbeTime"] = stamp(now)
    if held is None:
        conditions.append(wanted | times)
        return True
    if all(held.get(name) == wanted.get(name) for name in ("status", "reason", "message")):
        return False
    if held["status"] == wanted["status"]:
        times = {name: held[name] for name in times if name in held}
    held.clear()
    held |= wanted | times
    return True
