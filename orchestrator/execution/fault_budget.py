"""Bounds what the faults of a submission may cost one job before the job asks nothing more.

In play a picture is charged for its own fault only (rule A7), so faults are bounded by the time that they cost and not
by their number: else the secret order would decide how many pictures come before the last allowed fault. A determinism
check scores no picture, so there the number of faults is bounded.
"""

from dataclasses import dataclass

from orchestrator.domain.tasks import Limits
from orchestrator.errors import GaveUp


@dataclass
class FaultBudget:
    """Counts what faults cost, and decides when no further sandbox is started. None means no bound.

    `max_failed_starts` bounds consecutive sandboxes that did not get ready, `max_faults` the sandboxes that ended with
    a fault, `max_seconds` the time of questions that ended with a fault and of starting the sandboxes that replace
    theirs. `max_divergences` bounds how often an attack that queries makes other queries than before when its question
    begins again because of a fault of the defence, so that the earlier replies are of no use.
    """

    max_failed_starts: int | None = None
    max_faults: int | None = None
    max_seconds: float | None = None
    max_divergences: int | None = None
    consecutive_failed_starts: int = 0
    fault_count: int = 0
    seconds_spent: float = 0.0
    divergences: int = 0
    exhausted_before: bool = False
    """Whether the budget was used up in an earlier step of the job: then it stays so."""

    @classmethod
    def for_attack(cls, limits: Limits) -> "FaultBudget":
        """Returns the budget of a job that makes adversarial pictures: each batch has its own limit already (A15)."""
        return cls(max_failed_starts=limits.restarts)

    @classmethod
    def for_defence(cls, limits: Limits, cells: int) -> "FaultBudget":
        """Returns the budget of a defence's job that plays this number of cells."""
        return cls(
            max_failed_starts=limits.restarts,
            max_seconds=limits.fault_seconds * cells,
            max_divergences=limits.restarts,
        )

    @classmethod
    def for_determinism_check(cls, limits: Limits, faults: int = 0) -> "FaultBudget":
        """Returns the budget of a determinism check, or of one of its sessions, that already had `faults` faults."""
        return cls(max_faults=limits.restarts, fault_count=faults)

    def count_start(self) -> None:
        """Ends the row of failed starts, because a sandbox got ready."""
        self.consecutive_failed_starts = 0

    def count_failed_start(self) -> None:
        """Counts a sandbox that did not get ready."""
        self.consecutive_failed_starts += 1
        self.fault_count += 1

    def count_fault(self) -> None:
        """Counts a sandbox that ended with a fault after it got ready."""
        self.fault_count += 1

    def spend(self, seconds: float) -> None:
        """Adds the time that a fault cost."""
        self.seconds_spent += seconds

    @property
    def exhaustion_reason(self) -> str:
        """Why no further sandbox is started; empty while one may be."""
        if self.max_failed_starts is not None and self.consecutive_failed_starts > self.max_failed_starts:
            return f"{self.consecutive_failed_starts} sandboxes in a row did not get ready"
        if self.max_faults is not None and self.fault_count > self.max_faults:
            return f"no more sandboxes after {self.fault_count} faults"
        if self.max_seconds is not None and self.seconds_spent > self.max_seconds:
            return f"faults took longer than the {self.max_seconds:g} s that they may take"
        if self.max_divergences is not None and self.divergences > self.max_divergences:
            return (
                f"its faults let a question to the attack begin again {self.divergences} times, and each time the "
                "attack asked something else"
            )
        return "an earlier step of this job used up what faults may cost" if self.exhausted_before else ""

    def raise_if_exhausted(self) -> None:
        """Raises GaveUp if the budget is used up."""
        if self.exhaustion_reason:
            raise GaveUp(self.exhaustion_reason)
