"""Announcements of the organizers to everybody."""

from orchestrator.application.contests.administration import ContestAdmin, validated
from orchestrator.domain import contest_events
from orchestrator.domain.season import Announcement


def announce(admin: ContestAdmin, title: str, text: str) -> Announcement:
    """Records an announcement and returns it. Raises UsageError if a text is empty or too long."""
    event = validated(contest_events.ContestAnnounced, actor=admin.actor, title=title, text=text)
    with admin.alone():
        admin.append_event(event)
        return admin.season.announcements[-1]
