"""Findings with the evidence that their authors can check."""

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.domain.rulings import ABSTAINED, FAULTED
from orchestrator.results.document import FindingPart, Results
from orchestrator.results.report.standings import Person

EVIDENCE_SHOWN = 12
"""Disagreements of one finding on the page; all of them are in results.json."""
KINDS: Mapping[str, str] = {
    "chance": "The same picture, asked twice in one sandbox, got two decisions.",
    "state": "Pictures got another decision in a fresh sandbox and another order, and kept it there.",
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """A finding with its picture rows: against which pictures, picture, played, replayed, repeated."""

    part: FindingPart
    who: Person
    kind: str
    rows: tuple[tuple[str, int, str, str, str], ...]
    left_out: int


def evidence_of(results: Results, finding: FindingPart, people: Mapping[str, Person]) -> Evidence:
    """Returns a finding as shown, its answers in the words of the task."""

    def answer(value: int | None) -> str:
        if value is None:
            return "not repeated"
        if value in (ABSTAINED, FAULTED):
            return "abstained" if value == ABSTAINED else "no answer"
        return results.task.classes[value] if 0 <= value < len(results.task.classes) else str(value)

    rows = tuple(
        ("clean" if d.attack is None else d.attack, d.picture, answer(d.played), answer(d.replayed), answer(d.repeated))
        for d in finding.disagreements[:EVIDENCE_SHOWN]
    )
    return Evidence(
        part=finding,
        who=people.get(finding.submission) or Person(finding.submission),
        kind=KINDS.get(finding.kind.value, ""),
        rows=rows,
        left_out=len(finding.disagreements) - len(rows),
    )
