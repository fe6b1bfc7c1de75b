"""Whether submissions are received at a time, by the contest file's dates and by the organizers' closing event."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from orchestrator.domain.season import Closing
from orchestrator.domain.text import printable
from orchestrator.intake.contest_file import ContestFile

REASON_SHOWN = 300
"""The most characters of a reason that a sentence quotes."""


@dataclass(frozen=True, slots=True)
class SubmissionWindow:
    """When submissions are received, and whether they are received at a given time.

    Attributes:
        state: whether that time is before the opening, in between, or after the close.
        opens: when submissions open, by the contest file; None: with the contest.
        closes: when they close or closed, by the organizers' closing if there is one, else by the contest file; None:
            no close is planned.
        closing: the organizers' closing; None if the contest file's dates decide.
    """

    state: Literal["early", "open", "closed"]
    opens: datetime | None
    closes: datetime | None
    closing: Closing | None = None

    @property
    def reason(self) -> str:
        """The organizers' reason, as a page or a message shows it; empty without a closing or without a reason."""
        return printable(self.closing.reason, REASON_SHOWN) if self.closing else ""


def submission_window(file: ContestFile, closing: Closing | None, at: datetime) -> SubmissionWindow:
    """Returns when submissions are received, and whether they are received at a time.

    Args:
        file: the contest file, with its dates.
        closing: the organizers' closing, see `Season.closing`. None to judge a submission that came before it.
        at: the time.
    """
    if closing is not None:
        return SubmissionWindow("closed", file.opens, datetime.fromisoformat(closing.time), closing)
    if file.opens and at < file.opens:
        return SubmissionWindow("early", file.opens, file.closes)
    return SubmissionWindow("closed" if file.closes and at >= file.closes else "open", file.opens, file.closes)
