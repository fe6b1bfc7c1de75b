"""Closes submissions before the contest file's date for the organizers, and opens them again."""

from datetime import datetime

from orchestrator.application.contests.administration import ContestAdmin, validated
from orchestrator.application.contests.submission_window import SubmissionWindow, submission_window
from orchestrator.domain import contest_events
from orchestrator.domain.season import Closing, Season
from orchestrator.domain.text import iso_time
from orchestrator.errors import UsageError
from orchestrator.intake.contest_file import Contest


def close_submissions(admin: ContestAdmin, reason: str = "") -> Closing:
    """Records that no submission is received from now on, and returns the closing.

    Submissions that arrived before are still admitted, however long that takes. Raises UsageError with
    `closing_obstacle`'s text, if there is one.
    """
    event = validated(contest_events.SubmissionsClosed, actor=admin.actor, reason=reason)
    with admin.alone():
        if obstacle := closing_obstacle(admin.contest, admin.season, admin.now()):
            raise UsageError(obstacle)
        return Closing(admin.actor, reason, admin.append_event(event))


def reopen_submissions(admin: ContestAdmin, reason: str) -> SubmissionWindow:
    """Records that the contest file's dates decide again, and returns the window that they give now.

    Raises UsageError with `reopening_obstacle`'s text, if there is one, or if `reason` is missing.
    """
    event = validated(contest_events.SubmissionsReopened, actor=admin.actor, reason=reason)
    with admin.alone():
        if obstacle := reopening_obstacle(admin.contest, admin.season):
            raise UsageError(f"submissions cannot be opened again: {obstacle}")
        admin.append_event(event)
        return submission_window(admin.contest.file, None, admin.now())


def closing_obstacle(contest: Contest, season: Season, now: datetime) -> str:
    """Returns why submissions cannot be closed now, "" if they can."""
    if contest.format.closes_itself:
        return f"nobody closes submissions of the format {contest.file.format}: {contest.format.closes_itself}"
    window = submission_window(contest.file, season.closing, now)
    if window.closing is not None:
        return f"the organizers closed submissions at {window.closing.time} already"
    if window.state == "closed" and window.closes is not None:
        return f"submissions closed at {iso_time(window.closes)} already, by `closes` in contest.yaml"
    if window.state == "early" and window.opens is not None:
        return f"submissions are not open yet: they open at {iso_time(window.opens)}, by `opens` in contest.yaml"
    return ""


def reopening_obstacle(contest: Contest, season: Season) -> str:
    """Returns why submissions cannot be opened again, "" if they can.

    They stay closed once something was decided from the submissions so far: a later team would know the decision, and
    would have had no part in it. They also stay closed once the hidden labels are published.
    """
    if season.closing is None:
        return "the organizers did not close submissions; dates are changed in contest.yaml (`opens`, `closes`)"
    if any(each.bundle == "full" for each in season.published_bundles):
        return "a full bundle is published, and its readers know the hidden labels"
    if obstacle := contest.format.reopening_obstacle(season):
        return f"{obstacle}, by the submissions that there were"
    return ""
