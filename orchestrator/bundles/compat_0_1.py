"""What bundles of earlier software do not tell: they hold all the same, by what they do tell.

The first software did not count forfeits by reason, and did not say whether replays ran from a fresh copy. A bundle
leaves such a key out everywhere or nowhere. It also left the status of whom the organizers had disqualified as it was
before; boards said so then as now.
"""

from typing import Any

_PLAYED_STATUSES = ("pending", "played", "faulted")


def results_like(stated: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Returns results as they were counted again, without what the stated ones nowhere tell."""
    told = _like(stated, found, "submissions", "forfeit_reasons")
    told = _like(stated, told, "replays", "fresh_copy")
    if has_forfeit_reasons(stated):
        return told
    before = {str(part.get("id")): part.get("status") for part in _parts(stated, "submissions")}
    return told | {"submissions": [_as_before(part, before.get(part["id"])) for part in told["submissions"]]}


def round_like(stated: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Returns the content of `round.json` as it follows from the record, without what the stated one nowhere tells."""
    return _like(stated, _like(stated, found, "attacks", "malformed"), "work", "fresh_copy")


def has_forfeit_reasons(results: Any) -> bool:
    """Whether results tell somewhere why candidates do not count."""
    return _has_key(results, "submissions", "forfeit_reasons")


def _like(stated: Any, found: dict[str, Any], listed: str, key: str) -> dict[str, Any]:
    if _has_key(stated, listed, key):
        return found
    return found | {listed: [{name: part[name] for name in part if name != key} for part in found[listed]]}


def _as_before(part: dict[str, Any], status: object) -> dict[str, Any]:
    """Returns a submission with the status that it had before it was disqualified, where that is stated."""
    by_hand = part["status"] == "disqualified" and not part["findings"]
    return part | {"status": status} if by_hand and status in _PLAYED_STATUSES else part


def _has_key(value: Any, listed: str, key: str) -> bool:
    return any(key in part for part in _parts(value, listed))


def _parts(value: Any, listed: str) -> list[dict[str, Any]]:
    parts = value.get(listed) if isinstance(value, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
