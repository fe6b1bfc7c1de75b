"""What a hostile program says of itself: one JSON line, `{"harm": true, "evidence": "..."}`."""

import json

from orchestrator.domain.text import printable

_SHOWN = 300


def parse_report(output: bytes) -> tuple[bool | None, str]:
    """Returns harm and evidence of the last line that is a report; (None, "") when there is none. Hostile text."""
    for line in reversed(output.splitlines()):
        try:
            report = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(report, dict) and isinstance(report.get("harm"), bool):
            return report["harm"], printable(str(report.get("evidence", "")), _SHOWN)
    return None, ""
