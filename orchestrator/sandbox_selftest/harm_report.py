"""What a hostile program says of itself: one JSON line, `{"harm": true, "evidence": "..."}`."""

import json

from orchestrator.domain.text import printable

_SHOWN = 300


def parse_report(output: bytes) -> tuple[bool | None, str]:
    """Returns harm and evidence of the last line that is a report; (None, "") when there is none. Hostile text."""
    for line in reversed(output.splitlines()):
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict) and isinstance(said.get("harm"), bool):
            return said["harm"], printable(str(said.get("evidence", "")), _SHOWN)
    return None, ""
