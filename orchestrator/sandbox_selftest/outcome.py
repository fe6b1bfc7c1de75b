"""What became of one program, judged against what was expected."""

from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.domain.text import printable
from orchestrator.sandbox_selftest.expectation import ExpectedResult, Program


class Verdict(StrEnum):
    """What became of a program."""

    CONTAINED = "contained"
    GOT_THROUGH = "got through"
    """It did its harm, or was not stopped as it must be."""
    PROVED = "proved"
    """With its control removed it did its harm, so the control is what stops it."""
    UNPROVED = "unproved"
    """With its control removed it still did no harm: it proves nothing."""
    KNOWN_FAILURE = "known failure"
    SKIPPED = "not run"


@dataclass
class RunResult:
    """What was seen of a run."""

    harm: bool | None = None
    ending: str | None = None
    fault: str | None = None
    refused: list[str] | None = None
    seconds: float = 0.0
    peak_bytes: int | None = None
    cpu_share: float | None = None
    evidence: list[str] = field(default_factory=list)

    def mismatches(self, expected: ExpectedResult) -> list[str]:
        """Returns, in words, everything that is not as it has to be."""
        wrong = []
        for name in ("harm", "ending", "fault", "refused"):
            bound_value, actual = getattr(expected, name), getattr(self, name)
            if bound_value is not None and bound_value != actual:
                wrong.append(f"{name} is {actual!r}, expected {bound_value!r}")
        for name, actual, bound_value, more in (
            ("seconds", self.seconds, expected.max_seconds, True),
            ("peak bytes", self.peak_bytes, expected.max_peak_bytes, True),
            ("cpu share", self.cpu_share, expected.max_cpu_share, True),
            ("cpu share", self.cpu_share, expected.min_cpu_share, False),
        ):
            if bound_value is not None and (actual is None or (actual > bound_value if more else actual < bound_value)):
                bound = "at most" if more else "at least"
                wrong.append(f"{name} {actual}, expected {bound} {bound_value}")
        return wrong

    def summary(self) -> str:
        """Returns the evidence in one line, fit to show."""
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
        """Whether a reviewer has nothing to object to."""
        return self.verdict in (Verdict.CONTAINED, Verdict.PROVED, Verdict.KNOWN_FAILURE, Verdict.SKIPPED)


def judge_run(program: Program, result: RunResult, *, removed: bool, excuse: str = "") -> ProgramOutcome:
    """Returns the verdict on a run; `removed` when the control was taken away, `excuse` for a known failure."""
    expectation = program.expectation
    expected = expectation.removed.expected if removed and expectation.removed else expectation.contained
    wrong = result.mismatches(expected)
    good, bad = (Verdict.PROVED, Verdict.UNPROVED) if removed else (Verdict.CONTAINED, Verdict.GOT_THROUGH)
    verdict = good if not wrong else Verdict.KNOWN_FAILURE if excuse else bad
    return ProgramOutcome(
        program=program.name,
        family=expectation.family,
        attempt=expectation.attempt,
        control=f"{expectation.control} removed" if removed else expectation.control,
        verdict=verdict,
        evidence="; ".join(filter(None, (result.summary(), *wrong, excuse if wrong else ""))),
        control_removed=removed,
    )


def skipped_outcome(program: Program, reason: str, *, removed: bool) -> ProgramOutcome:
    """Returns the line of a run that there is no sense in."""
    return _outcome_without_run(program, Verdict.SKIPPED, reason, removed=removed)


def failed_outcome(program: Program, error: Exception, *, removed: bool) -> ProgramOutcome:
    """Returns the line of a run that failed: it shows nothing, so it counts against us."""
    verdict = Verdict.UNPROVED if removed else Verdict.GOT_THROUGH
    return _outcome_without_run(program, verdict, f"nothing was shown: {printable(str(error))}", removed=removed)


def _outcome_without_run(program: Program, verdict: Verdict, evidence: str, *, removed: bool) -> ProgramOutcome:
    expectation = program.expectation
    stopped_by = f"{expectation.control} removed" if removed else expectation.control
    return ProgramOutcome(program.name, expectation.family, expectation.attempt, stopped_by, verdict, evidence, removed)
