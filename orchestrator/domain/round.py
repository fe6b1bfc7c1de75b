"""The state of a round, folded from its ledger. No store, no clock."""

from collections import Counter
from dataclasses import dataclass, field

from orchestrator.domain import events
from orchestrator.domain.findings import Disagreement, Finding, SequenceQuestion
from orchestrator.domain.plan import Cell, Stage
from orchestrator.domain.submissions import Roster, Submission


@dataclass
class Round:
    """The state of a round after some of its events. Only `apply` changes it."""

    opening: events.RoundOpened | None = None
    submissions: list[Submission] = field(default_factory=list)
    planned_jobs: tuple[events.JobRecord, ...] = ()
    planned_jobs_of: dict[str, list[events.JobRecord]] = field(default_factory=dict)
    """The planned jobs by submission, in the plan's order. A query job is listed for its defence and for its attack."""
    query_jobs: dict[Cell, str] = field(default_factory=dict)
    """The ids of the planned jobs in which an attack queries a defence, by cell."""
    jobs: dict[str, events.JobRecord] = field(default_factory=dict)
    """Every job that was ever planned."""
    jobs_of: dict[str, dict[str, events.JobRecord]] = field(default_factory=dict)
    """The jobs that were ever planned, by submission. A query job is listed for its defence and for its attack."""
    steps: dict[str, dict[int, events.StepFinished]] = field(default_factory=dict)
    finished_jobs: dict[str, events.JobFinished] = field(default_factory=dict)
    failed_attempts: list[events.AttemptFailed] = field(default_factory=list)
    parked_jobs: dict[str, events.JobParked] = field(default_factory=dict)
    """The jobs that failed at every attempt and were not planned again since, by job."""
    probe_overrides: list[events.ClusterProbed] = field(default_factory=list)
    """The probes after which it was played on a cluster although they do not show that players cannot connect."""
    replay_head: str | None = None
    answers_digest: str | None = None
    """A digest of every answer in play, once `PlayClosed` is in the ledger."""
    replay_coverage: dict[str, events.ReplayJudged] = field(default_factory=dict)
    """How much replays covered, by job."""
    findings: list[Finding] = field(default_factory=list)
    judgements: list[events.ReplayJudged | events.FindingMade] = field(default_factory=list)
    """The judgements of replays and the findings, in the order of the ledger."""
    closed: bool = False
    """Whether the last event is RoundClosed: after any later event, the round has to be closed again."""

    @property
    def roster(self) -> Roster:
        """The submissions of the round."""
        return Roster(tuple(self.submissions))

    def finished_jobs_of(self, submission: str) -> list[events.JobFinished]:
        """Returns the JobFinished events of a submission's own jobs."""
        ends = (self.finished_jobs[job] for job in self.jobs_of.get(submission, ()) if job in self.finished_jobs)
        return [end for end in ends if end.submission == submission]

    def copied(self, submission: str) -> bool:
        """Returns whether every finished replay of a submission is known to have run from a fresh copy of its image.

        A step that started no sandbox, because faults had used up the job's time, names no copy; another one does.
        """
        replays = [job.id for job in self.planned_jobs_of.get(submission, ()) if job.stage is Stage.REPLAY]
        finished = [self.steps.get(job, {}).values() for job in replays if job in self.finished_jobs]
        return bool(finished) and all(any(step.fresh_copy for step in steps) for steps in finished)

    def sandboxes_of(self, submission: str) -> list[events.SandboxRecord]:
        """Returns every recorded sandbox of a submission, those of unfinished jobs included."""
        jobs = self.jobs_of.get(submission, {})
        steps = [step for job in jobs for step in self.steps.get(job, {}).values()]
        ends = [self.finished_jobs[job] for job in jobs if job in self.finished_jobs]
        parts: list[events.StepFinished | events.JobFinished] = [*steps, *ends]
        return [s for part in parts for s in part.sandboxes if (s.submission or part.submission) == submission]

    def fault_counts(self, submission: str, stage: Stage | None = None) -> dict[tuple[str, str], tuple[int, int]]:
        """Returns how often faults of a submission occurred, and how many pictures are charged with them.

        They are those in the planned jobs, or in those of one stage, by code and reason, sorted.
        """
        times, pictures = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        planned = [job for job in self.planned_jobs_of.get(submission, ()) if stage in {None, job.stage}]
        for step in (step for job in planned for step in self.steps.get(job.id, {}).values()):
            for fault in step.faults:
                if (fault.submission or step.submission) == submission:
                    times[fault.code, fault.reason] += fault.times
                    pictures[fault.code, fault.reason] += fault.pictures
        return {kind: (times[kind], pictures[kind]) for kind in sorted(times)}

    def apply(self, event: events.Event) -> None:
        """Applies one event. Events that change nothing here, such as BackendReturned, only reopen the round."""
        self.closed = False
        match event:
            case events.StepFinished():  # first the most frequent kind: comparing classes takes long
                self.steps.setdefault(event.job, {})[event.step] = event
            case events.JobFinished():
                self.finished_jobs[event.job] = event
                self.parked_jobs.pop(event.job, None)
            case events.RoundOpened():
                self.opening = event
            case events.SubmissionAdmitted():
                self.submissions.append(Submission(**event.model_dump(exclude={"kind"})))
            case events.PlanMade():
                self.planned_jobs, self.answers_digest = tuple(event.jobs), None
                self.planned_jobs_of, self.query_jobs = {}, {}
                for job in event.jobs:
                    self.jobs[job.id] = job
                    if job.stage is Stage.QUERY:
                        self.query_jobs |= {Cell(cell.defence, cell.attack): job.id for cell in job.cells}
                    for submission in playing_submissions(job):
                        self.planned_jobs_of.setdefault(submission, []).append(job)
                        self.jobs_of.setdefault(submission, {})[job.id] = job
                again = self.planned_jobs_of.keys()
                self.parked_jobs = {
                    job: parked for job, parked in self.parked_jobs.items() if parked.submission not in again
                }
            case events.StepsLost():
                self._invalidate(set(event.jobs))
            case _:
                self._apply_other(event)

    def _invalidate(self, jobs: set[str]) -> None:
        for known in (self.steps, self.finished_jobs, self.replay_coverage):
            for job in jobs & known.keys():
                known.pop(job)
        self.findings = [finding for finding in self.findings if finding.job not in jobs]
        self.judgements = [judgement for judgement in self.judgements if judgement.job not in jobs]

    def _apply_other(self, event: events.Event) -> None:
        match event:
            case events.AttemptFailed():
                self.failed_attempts.append(event)
            case events.JobParked():
                self.parked_jobs[event.job] = event
            case events.RoundClosed():
                self.closed, self.parked_jobs = True, {}
            case events.ClusterProbed():
                self.probe_overrides += [event] if event.override_reason else []
            case events.PlayClosed():
                self.replay_head, self.answers_digest = event.head, event.answers_digest
            case events.ReplayJudged():
                self.replay_coverage[event.job] = event
                self.judgements.append(event)
            case events.FindingMade():
                self.findings.append(_finding(event))
                self.judgements.append(event)


def playing_submissions(job: events.JobRecord) -> list[str]:
    """Returns the submissions that play in a job: its own, and in a query job the attacks."""
    attacks = [cell.attack for cell in job.cells if cell.attack] if job.stage is Stage.QUERY else []
    return [job.submission, *attacks]


def _finding(event: events.FindingMade) -> Finding:
    plain = event.model_dump(exclude={"kind", "finding", "rules", "disagreements", "steps", "sequence"})
    return Finding(
        **plain,
        kind=event.finding,
        rules=tuple(event.rules),
        disagreements=tuple(Disagreement(**record.model_dump()) for record in event.disagreements),
        steps=tuple(event.steps),
        sequence=tuple(SequenceQuestion(**record.model_dump()) for record in event.sequence),
    )
