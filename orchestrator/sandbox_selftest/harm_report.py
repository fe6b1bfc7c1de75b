"""Parses the report of a hostile program: one JSON line, `{"harm": true, "evidence": "..."}`."""

import json

from orchestrator.domain.text import printable

_MAX_EVIDENCE_CHARACTERS = 300


def parse_report(output: bytes) -> tuple[bool | None, str]:
    """Returns harm and printable evidence from the last line that is a report, (None, "") if there is none."""
    for line in reversed(output.splitlines()):
        try:
            report = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(report, dict) and isinstance(report.get("harm"), bool):
            return report["harm"], printable(str(report.get("evidence", "")), _MAX_EVIDENCE_CHARACTERS)
    return None, ""
