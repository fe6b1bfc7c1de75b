"""The tournament's own events in a contest's ledger."""

from typing import Literal

from pydantic import Field

from orchestrator.domain.contest_events import FormatEvent, NameOf

INITIAL, FINAL = "initial", "final"
"""The two rounds of a season."""


class FinalistsPromoted(FormatEvent):
    """Finalists were promoted to the final round of a task, one submission for each team (rules A4, A11, A12).

    `reason` says why they were promoted again after the final round was begun; it is empty otherwise.
    """

    kind: Literal["tournament.finalists_promoted"] = "tournament.finalists_promoted"
    task: str
    attacks: list[str]
    defences: list[str]
    superseded: dict[str, str] = Field(default_factory=dict)
    """For each submission that another one of its team stands for, the reason in words, by id."""

    @property
    def submissions(self) -> frozenset[str]:
        """The finalists of both sides."""
        return frozenset((*self.attacks, *self.defences))

    def follows_from(self) -> tuple[str, str]:
        """Returns the initial round of the task."""
        return INITIAL, self.task

    def summary(self) -> dict[str, str]:
        """Returns the finalists of each side."""
        return {"attacks": ", ".join(self.attacks) or "none", "defences": ", ".join(self.defences) or "none"}

    def in_words(self, _: NameOf) -> str:
        """Returns who was promoted, in words."""
        sides = "; ".join(f"{side}: {who}" for side, who in self.summary().items())
        return f"recorded who goes on to the final round of {self.task}: {sides}"

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns whether a submission was promoted, and if not, which submission stands for its team."""
        if task != self.task:
            return None
        if submission in self.submissions:
            return "Promoted to the final", self.reason
        return "Not promoted", self.superseded.get(submission, "") or self.reason
