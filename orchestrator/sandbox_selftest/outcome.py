"""What became of one program, judged against what was expected."""

from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.domain.text import printable
from orchestrator.sandbox_selftest.expectation import ExpectedResult, Program


class Verdict(StrEnum):
    """What became of a program."""

    CONTAINED = "contained"
    THROUGH = "got through"
    """It did its harm, or was not stopped as it must be."""
    PROVED = "proved"
    """With its control removed it did its harm, so the control is what stops it."""
    TOOTHLESS = "toothless"
    """With its control removed it still did no harm: it proves nothing."""
    KNOWN = "known failure"
    SKIPPED = "not run"


@dataclass
class RunResult:
    """What was seen of a run."""

    harm: bool | None = None
    ending: str | None = None
    fault: str | None = None
    refused: list[str] | None = None
    seconds: float = 0.0
    peak: int | None = None
    cpu: float | None = None
    evidence: list[str] = field(default_factory=list)

    def differs(self, seen: ExpectedResult) -> list[str]:
        """Returns, in words, everything that is not as it has to be."""
        wrong = []
        for name in ("harm", "ending", "fault", "refused"):
            wanted, found = getattr(seen, name), getattr(self, name)
            if wanted is not None and wanted != found:
                wrong.append(f"{name} is {found!r}, expected {wanted!r}")
        for name, found, wanted, more in (
            ("seconds", self.seconds, seen.most_seconds, True),
            ("peak bytes", self.peak, seen.most_peak, True),
            ("cpu share", self.cpu, seen.most_cpu, True),
            ("cpu share", self.cpu, seen.least_cpu, False),
        ):
            if wanted is not None and (found is None or (found > wanted if more else found < wanted)):
                bound = "at most" if more else "at least"
                wrong.append(f"{name} {found}, expected {bound} {wanted}")
        return wrong

    def summary(self) -> str:
        """Returns the evidence in one line, fit to show."""
        facts = [f"ended {self.ending}" if self.ending else "", f"fault {self.fault}" if self.fault else ""]
        facts.append(f"refused for {', '.join(self.refused)}" if self.refused else "")
        facts.append(f"cpu share {self.cpu:.2f}" if self.cpu is not None else "")
        return printable("; ".join(filter(None, (*self.evidence, *facts))), 400)


@dataclass(frozen=True)
class ProgramOutcome:
    """One line of the reviewer's table."""

    program: str
    family: str
    attempted: str
    stopped_by: str
    verdict: Verdict
    evidence: str
    removed: bool = False
    """Whether this is the run with the control removed."""

    @property
    def fine(self) -> bool:
        """Whether a reviewer has nothing to object to."""
        return self.verdict in (Verdict.CONTAINED, Verdict.PROVED, Verdict.KNOWN, Verdict.SKIPPED)


def judge_run(program: Program, seen: RunResult, *, removed: bool, excuse: str = "") -> ProgramOutcome:
    """Returns the verdict on a run; `removed` when the control was taken away, `excuse` for a known failure."""
    expectation = program.expectation
    wanted = expectation.removed.seen if removed and expectation.removed else expectation.contained
    wrong = seen.differs(wanted)
    good, bad = (Verdict.PROVED, Verdict.TOOTHLESS) if removed else (Verdict.CONTAINED, Verdict.THROUGH)
    verdict = good if not wrong else Verdict.KNOWN if excuse else bad
    return ProgramOutcome(
        program=program.name,
        family=expectation.family,
        attempted=expectation.attempts,
        stopped_by=f"{expectation.control} removed" if removed else expectation.control,
        verdict=verdict,
        evidence="; ".join(filter(None, (seen.summary(), *wrong, excuse if wrong else ""))),
        removed=removed,
    )


def skipped_outcome(program: Program, reason: str, *, removed: bool) -> ProgramOutcome:
    """Returns the line of a run that there is no sense in."""
    return _outcome_without_run(program, Verdict.SKIPPED, reason, removed=removed)


def failed_outcome(program: Program, error: Exception, *, removed: bool) -> ProgramOutcome:
    """Returns the line of a run that failed: it shows nothing, so it counts against us."""
    verdict = Verdict.TOOTHLESS if removed else Verdict.THROUGH
    return _outcome_without_run(program, verdict, f"nothing was shown: {printable(str(error))}", removed=removed)


def _outcome_without_run(program: Program, verdict: Verdict, evidence: str, *, removed: bool) -> ProgramOutcome:
    expectation = program.expectation
    stopped_by = f"{expectation.control} removed" if removed else expectation.control
    return ProgramOutcome(
        program.name, expectation.family, expectation.attempts, stopped_by, verdict, evidence, removed
    )
