"""What bundles of earlier software do not tell: they hold all the same, by what they do tell.

The first software did not count forfeits by reason. A bundle leaves such a key out everywhere or nowhere.
"""

from typing import Any


def results_like(stated: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Returns results as they were counted again, without what the stated ones nowhere tell."""
    return _like(stated, found, "submissions", "forfeit_reasons")


def round_like(stated: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Returns the content of `round.json` as it follows from the record, without what the stated one nowhere tells."""
    return _like(stated, found, "attacks", "malformed")


def tells_reasons(results: Any) -> bool:
    """Whether results tell somewhere why candidates do not count."""
    return _tells(results, "submissions", "forfeit_reasons")


def _like(stated: Any, found: dict[str, Any], listed: str, key: str) -> dict[str, Any]:
    if _tells(stated, listed, key):
        return found
    return found | {listed: [{name: part[name] for name in part if name != key} for part in found[listed]]}


def _tells(value: Any, listed: str, key: str) -> bool:
    parts = value.get(listed) if isinstance(value, dict) else None
    return any(isinstance(part, dict) and key in part for part in parts) if isinstance(parts, list) else False
