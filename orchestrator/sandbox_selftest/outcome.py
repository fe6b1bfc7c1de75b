"""Compares the result of a program's run with its expectation, and gives a verdict."""

from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.domain.text import printable
from orchestrator.sandbox_selftest.expectation import ExpectedResult, Program


class Verdict(StrEnum):
    """The verdict on a run of a program."""

    CONTAINED = "contained"
    GOT_THROUGH = "got through"
    """It did harm, or was not stopped as expected."""
    PROVED = "proved"
    """With its control removed it did harm, so the control is what stops it."""
    UNPROVED = "unproved"
    """With its control removed it still did no harm, so it proves nothing."""
    KNOWN_FAILURE = "known failure"
    SKIPPED = "not run"


@dataclass
class RunResult:
    """The result of a run. None is unknown."""

    harm: bool | None = None
    ending: str | None = None
    fault: str | None = None
    refused: list[str] | None = None
    seconds: float = 0.0
    peak_bytes: int | None = None
    cpu_share: float | None = None
    evidence: list[str] = field(default_factory=list)

    def mismatches(self, expected: ExpectedResult) -> list[str]:
        """Returns a text for each difference from the expected result."""
        differences = []
        for name in ("harm", "ending", "fault", "refused"):
            bound_value, actual = getattr(expected, name), getattr(self, name)
            if bound_value is not None and bound_value != actual:
                differences.append(f"{name} is {actual!r}, expected {bound_value!r}")
        for name, actual, bound_value, is_maximum in (
            ("seconds", self.seconds, expected.max_seconds, True),
            ("peak bytes", self.peak_bytes, expected.max_peak_bytes, True),
            ("cpu share", self.cpu_share, expected.max_cpu_share, True),
            ("cpu share", self.cpu_share, expected.min_cpu_share, False),
        ):
            if bound_value is not None and (
                actual is None or (actual > bound_value if is_maximum else actual < bound_value)
            ):
                bound = "at most" if is_maximum else "at least"
                differences.append(f"{name} {actual}, expected {bound} {bound_value}")
        return differences

    def summary(self) -> str:
        """Returns the evidence as one printable line."""
        facts = [f"ended {self.ending}" if self.ending else "", f"fault {self.fault}" if self.fault else ""]
        facts.append(f"refused for {', '.join(self.refused)}" if self.refused else "")
        facts.append(f"cpu share {self.cpu_share:.2f}" if self.cpu_share is not None else "")
        return printable("; ".join(filter(None, (*self.evidence, *facts))), 400)


@dataclass(frozen=True)
class ProgramOutcome:
    """One line of the reviewer's table."""

    program: str
    family: str
    attempt: str
    control: str
    verdict: Verdict
    evidence: str
    control_removed: bool = False
    """Whether this is the run with the control removed."""

    @property
    def is_fine(self) -> bool:
        """Whether the verdict is not a failure."""
        return self.verdict in (Verdict.CONTAINED, Verdict.PROVED, Verdict.KNOWN_FAILURE, Verdict.SKIPPED)


def judge_run(program: Program, result: RunResult, *, removed: bool, excuse: str = "") -> ProgramOutcome:
    """Returns the outcome of a run; `removed`: without its control; `excuse`: the reason of a known failure."""
    expectation = program.expectation
    expected = expectation.removed.expected if removed and expectation.removed else expectation.contained
    differences = result.mismatches(expected)
    good, bad = (Verdict.PROVED, Verdict.UNPROVED) if removed else (Verdict.CONTAINED, Verdict.GOT_THROUGH)
    verdict = good if not differences else Verdict.KNOWN_FAILURE if excuse else bad
    return ProgramOutcome(
        program=program.name,
        family=expectation.family,
        attempt=expectation.attempt,
        control=f"{expectation.control} removed" if removed else expectation.control,
        verdict=verdict,
        evidence="; ".join(filter(None, (result.summary(), *differences, excuse if differences else ""))),
        control_removed=removed,
    )


def skipped_outcome(program: Program, reason: str, *, removed: bool) -> ProgramOutcome:
    """Returns the outcome of a run that was left out for a reason."""
    return _outcome_without_run(program, Verdict.SKIPPED, reason, removed=removed)


def failed_outcome(program: Program, error: Exception, *, removed: bool) -> ProgramOutcome:
    """Returns the outcome of a run that failed with an error: it shows nothing, so it counts as a failure."""
    verdict = Verdict.UNPROVED if removed else Verdict.GOT_THROUGH
    return _outcome_without_run(program, verdict, f"nothing was shown: {printable(str(error))}", removed=removed)


def _outcome_without_run(program: Program, verdict: Verdict, evidence: str, *, removed: bool) -> ProgramOutcome:
    expectation = program.expectation
    control = f"{expectation.control} removed" if removed else expectation.control
    return ProgramOutcome(program.name, expectation.family, expectation.attempt, control, verdict, evidence, removed)
