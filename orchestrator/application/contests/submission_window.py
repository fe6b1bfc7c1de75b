"""Whether submissions are received at a time: by the dates of the contest file, and by what the organizers did."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from orchestrator.domain.season import Closing
from orchestrator.domain.text import printable
from orchestrator.intake.contest_file import ContestFile

REASON_SHOWN = 300
"""Characters of a reason in a sentence that tells it."""


@dataclass(frozen=True, slots=True)
class SubmissionWindow:
    """When submissions are received, and whether they are at one time.

    Attributes:
        state: whether that time is before the opening, in between, or after the close.
        opens: when they open, by the contest file; None: with the contest.
        closes: when they close or closed, by the organizers' act where there is one, else by the contest file; None:
            nobody said when.
        closing: the organizers' act; None where the contest file's dates decide.
    """

    state: Literal["early", "open", "closed"]
    opens: datetime | None
    closes: datetime | None
    closing: Closing | None = None

    @property
    def reason(self) -> str:
        """Why the organizers closed them, as a page or a message shows it; empty where they did not, or did not say."""
        return printable(self.closing.reason, REASON_SHOWN) if self.closing else ""


def submission_window(file: ContestFile, closing: Closing | None, at: datetime) -> SubmissionWindow:
    """Returns when submissions are received, and whether they are at a time.

    Args:
        file: the contest file, with its dates.
        closing: the organizers' act that keeps submissions closed, see `Season.closing`. None for what came before.
        at: the time.
    """
    if closing is not None:
        return SubmissionWindow("closed", file.opens, datetime.fromisoformat(closing.time), closing)
    if file.opens and at < file.opens:
        return SubmissionWindow("early", file.opens, file.closes)
    return SubmissionWindow("closed" if file.closes and at >= file.closes else "open", file.opens, file.closes)
