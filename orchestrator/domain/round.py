"""A round as its ledger tells it: the fold of its events. No store, no clock."""

from dataclasses import dataclass, field

from orchestrator.domain import events
from orchestrator.domain.findings import Disagreement, Finding
from orchestrator.domain.submissions import Roster, Submission


@dataclass
class Round:
    """What is known after some events. `apply` is the only way to learn more."""

    opened: events.RoundOpened | None = None
    submissions: list[Submission] = field(default_factory=list)
    planned: tuple[events.JobRecord, ...] = ()
    steps: dict[str, dict[int, events.StepFinished]] = field(default_factory=dict)
    finished: dict[str, events.JobFinished] = field(default_factory=dict)
    failures: list[events.AttemptFailed] = field(default_factory=list)
    replay_head: str | None = None
    findings: list[Finding] = field(default_factory=list)
    closed: bool = False

    @property
    def roster(self) -> Roster:
        """Who plays."""
        return Roster(tuple(self.submissions))

    def apply(self, event: events.Event) -> None:
        """Learns one event. What changes nothing, such as how long an engine was waited for, is passed over."""
        match event:
            case events.RoundOpened():
                self.opened = event
            case events.SubmissionAdmitted():
                self.submissions.append(Submission(**event.model_dump(exclude={"kind"})))
            case events.PlanMade():
                self.planned, self.closed = tuple(event.jobs), False
            case events.StepFinished():
                self.steps.setdefault(event.job, {})[event.step] = event
            case events.JobFinished():
                self.finished[event.job] = event
            case events.AttemptFailed():
                self.failures.append(event)
            case events.PlayClosed():
                self.replay_head = event.head
            case events.FindingMade():
                self.findings.append(_finding(event))
            case events.RoundClosed():
                self.closed = True


def _finding(event: events.FindingMade) -> Finding:
    return Finding(
        id=event.id,
        submission=event.submission,
        kind=event.finding,
        rules=tuple(event.rules),
        summary=event.summary,
        compared=event.compared,
        disagreements=tuple(Disagreement(**record.model_dump()) for record in event.disagreements),
    )
