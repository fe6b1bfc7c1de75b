"""Grading as organizers run it: when it may be planned (C7)."""

from datetime import UTC, datetime

import pytest

from orchestrator.application.contests import seasons, submission_closing
from orchestrator.application.contests.closing_preview import closing_preview
from orchestrator.application.grading import human_grading
from orchestrator.errors import UsageError
from tests.web import rating_contest

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


def test_grading_is_planned_after_the_organizers_close(tmp_path) -> None:
    """Their act closes before the date does, so the next hindrance is named; taken back, the date decides."""

    def clock() -> datetime:
        return datetime(2026, 12, 1, 8, tzinfo=UTC)

    def why_not() -> str:
        with seasons.administer(tmp_path, clock=clock) as admin, pytest.raises(UsageError) as refused:
            human_grading.plan_grading(admin, ["r01", "r02", "r03"])
        return str(refused.value)

    (tmp_path / "contest.yaml").write_text(CONTEST)
    seasons.open_contest(tmp_path, clock=clock)
    with seasons.administer(tmp_path, clock=clock) as admin:
        submission_closing.close_submissions(admin)
    assert "was not played" in why_not()
    with seasons.administer(tmp_path, clock=clock) as admin:
        submission_closing.reopen_submissions(admin, "a mistake")
    assert "submissions are received until" in why_not()


def test_grading_of_a_contest_without_dates_is_planned_after_the_organizers_close(tmp_path) -> None:
    """It receives submissions until they close it, and nobody would grade what came after the plan."""
    (tmp_path / "contest.yaml").write_text(CONTEST.replace("closes: 2026-12-01T10:00:00+01:00\n", ""))
    seasons.open_contest(tmp_path)
    for reason in ("submissions are received until you close them.*sparring contest close", "was not played"):
        with seasons.administer(tmp_path) as admin, pytest.raises(UsageError, match=reason):
            human_grading.plan_grading(admin, ["r01", "r02", "r03"])
        with seasons.administer(tmp_path) as admin:
            if admin.season.closing is None:
                submission_closing.close_submissions(admin)


def test_a_plan_of_graders_keeps_submissions_closed(tmp_path) -> None:
    """Every plan has the pictures that there were: late ones would be graded by nobody. The preview counts archives."""
    folder, clock = tmp_path / "digits", rating_contest.Clock()
    rating_contest.make_contest(folder, clock)
    with seasons.administer(folder, clock=clock) as admin:
        found = closing_preview(admin.folder, admin.contest, admin.season, clock(), [])
        submission_closing.close_submissions(admin)
    [board] = found.rounds
    assert (board.round, board.submissions, board.teams) == ("board", {"attack": 2}, 2)
    rating_contest.plan_for(folder, clock, ["person-1"])
    with (
        seasons.administer(folder, clock=clock) as admin,
        pytest.raises(UsageError, match="cannot be opened again: the grading of digits is already planned"),
    ):
        submission_closing.reopen_submissions(admin, "a day more")
