"""Grading as organizers run it: when it may be planned (C7)."""

from datetime import UTC, datetime

import pytest

from orchestrator.application.contests import seasons
from orchestrator.application.grading import human_grading
from orchestrator.errors import UsageError

CONTEST = """sparring: 1
contest: digits
title: Digits that mislead
format: attack_set
closes: 2026-12-01T10:00:00+01:00
task:
  name: digits
  dataset: {kind: digits, split: test, first: 20}
rules: {grading: {distance: 2, pictures: 12}}
baselines:
  - {builtin: defence_undefended}
"""


@pytest.mark.parametrize(("minute", "reason"), [(59, "submissions are received until"), (60, "was not played")])
def test_grading_is_planned_after_the_close(tmp_path, minute, reason) -> None:
    """Before it more may come in, which nobody would grade; at the close the next hindrance is named."""

    def clock() -> datetime:
        return datetime(2026, 12, 1, 8 + minute // 60, minute % 60, tzinfo=UTC)

    (tmp_path / "contest.yaml").write_text(CONTEST)
    seasons.open_contest(tmp_path, clock=clock)
    with seasons.administer(tmp_path, clock=clock) as admin, pytest.raises(UsageError, match=reason):
        human_grading.plan_grading(admin, ["r01", "r02", "r03"])
