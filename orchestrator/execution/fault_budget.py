"""What the faults of a submission may cost one job before nothing more of it is asked.

In play a picture is charged for its own fault only (rule A7), so faults are bounded by the time that they cost and not
by their number: how many pictures come before the last allowed fault is decided by the secret order. A determinism
check scores no picture, and there the number is bounded.
"""

from dataclasses import dataclass

from orchestrator.domain.tasks import Limits
from orchestrator.errors import GaveUp


@dataclass
class FaultBudget:
    """Counts what faults cost, and says when no further sandbox is opened. None is no bound.

    `failed_starts` bounds sandboxes in a row that did not get ready, `faults` the sandboxes that ended with a fault,
    `seconds` the time of questions that ended with one and of the sandboxes opened because of them.
    """

    failed_starts: int | None = None
    faults: int | None = None
    seconds: float | None = None
    starts_failed: int = 0
    faults_counted: int = 0
    seconds_spent: float = 0.0
    exhausted: bool = False
    """Whether an earlier step of the job found it used up: then it stays so."""

    @classmethod
    def of_attack(cls, limits: Limits) -> "FaultBudget":
        """Returns the budget of a job that makes adversarial pictures: each batch has its own limit already (A15)."""
        return cls(failed_starts=limits.restarts)

    @classmethod
    def of_defence(cls, limits: Limits, cells: int) -> "FaultBudget":
        """Returns the budget of a job that classifies the pictures of so many cells."""
        return cls(failed_starts=limits.restarts, seconds=limits.fault_seconds * cells)

    @classmethod
    def of_check(cls, limits: Limits, faults: int = 0) -> "FaultBudget":
        """Returns the budget of a determinism check, or of one of its sessions, that has had so many faults."""
        return cls(faults=limits.restarts, faults_counted=faults)

    def started(self) -> None:
        """Notes that a sandbox got ready."""
        self.starts_failed = 0

    def failed_start(self) -> None:
        """Notes that a sandbox did not get ready."""
        self.starts_failed += 1
        self.faults_counted += 1

    def fault(self) -> None:
        """Notes that a sandbox ended with a fault while it was asked."""
        self.faults_counted += 1

    def spend(self, seconds: float) -> None:
        """Adds what a fault cost."""
        self.seconds_spent += seconds

    @property
    def used_up(self) -> str:
        """Why no further sandbox is opened; empty while one may be."""
        if self.failed_starts is not None and self.starts_failed > self.failed_starts:
            return f"{self.starts_failed} sandboxes in a row did not get ready"
        if self.faults is not None and self.faults_counted > self.faults:
            return f"no more sandboxes after {self.faults_counted} faults"
        if self.seconds is not None and self.seconds_spent > self.seconds:
            return f"faults took longer than the {self.seconds:g} s that they may take"
        return "an earlier step of this job used up what faults may cost" if self.exhausted else ""

    def check(self) -> None:
        """Raises GaveUp where nothing is left of it."""
        if self.used_up:
            raise GaveUp(self.used_up)
