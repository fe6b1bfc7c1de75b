"""Plays a round, from its first event to its last.

The executor plays the jobs that are ready according to the plan; every event is in the ledger before the executor
continues. A killed round resumes from its ledger: finished jobs and finished steps are never played twice.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import Any

from orchestrator import __version__
from orchestrator.domain import events
from orchestrator.domain.findings import Finding
from orchestrator.domain.ids import digest
from orchestrator.domain.plan import Cell, Job, Plan, Stage
from orchestrator.domain.submissions import Side
from orchestrator.errors import JobsParked
from orchestrator.execution import picture_import
from orchestrator.execution.fresh_copy import FreshCopies
from orchestrator.execution.job_runner import JobRunner
from orchestrator.execution.planner import make_plan
from orchestrator.execution.reusable_jobs import (
    ReusableRound,
    damaged_jobs,
    finished_planned_jobs,
    jobs_without_verdict,
    reusable_jobs,
)
from orchestrator.execution.round_context import RoundContext
from orchestrator.executors.base import Executor
from orchestrator.integrity import findings, query_findings
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import Ledger, put_array
from orchestrator.logs import get_logger
from orchestrator.protocol.messages import PROTOCOL_VERSION

CurrentTime = Callable[[], str]
"""Returns the time as ISO 8601 in UTC."""
EventCallback = Callable[[events.Event], None]
"""Is called with every event after it is in the ledger."""

_LAST_JOBS = 2
"""When so many jobs of the play are left, images are copied for the replays: players that play do not wait for it."""
_SUPERSEDED = "another plan has other answers, and from these other replays follow; these were not judged yet"

_log = get_logger()


class RoundRunner:
    """Plays one round and writes its ledger.

    Args:
        context: what stays the same through the round.
        ledger: where events are appended; `view` has its entries so far.
        view: the fold of the ledger; new events are applied to it.
        now: returns the time of a new event.
        on_event: is called with every new event.
    """

    def __init__(
        self, context: RoundContext, ledger: Ledger, view: RoundView, now: CurrentTime, on_event: EventCallback
    ) -> None:
        self._context, self._plan = context, Plan(())
        self._ledger, self._view = ledger, view
        self._now, self._on_event = now, on_event

    def open_round(self, contest: dict[str, Any], phase: str = "") -> None:
        """Appends the round's first events: the ledger has the secret's hash before anything is played."""
        context, task = self._context, self._context.task
        opening = events.RoundOpened(
            round=context.round,
            phase=phase,
            contest=contest,
            task=events.TaskRecord(
                name=task.name,
                classes=list(task.classes),
                shape=list(task.shape),
                count=task.count,
                digest=task.digest,
                norm=task.budget and task.budget.norm.value,
                epsilon=task.budget and str(task.budget.epsilon),
                pixels=put_array(context.blobs, context.samples.pixels),
                labels=put_array(context.blobs, context.samples.labels),
            ),
            backend=context.backend.name,
            commitment=digest(context.secret),
            software=__version__,
            protocol=PROTOCOL_VERSION,
        )
        self._append(opening, *(events.SubmissionAdmitted(**asdict(s)) for s in context.roster))

    def admit_new(self) -> None:
        """Admits the submissions that were received since the round was opened; only new cells are played (X4)."""
        known = {submission.id for submission in self._view.round.roster}
        self._append(*(events.SubmissionAdmitted(**asdict(s)) for s in self._context.roster if s.id not in known))

    def invalidate_damaged(self) -> None:
        """Invalidates the jobs whose arrays cannot be read any more, and those built on them: they are played again."""
        self._invalidate(*damaged_jobs(self._view, self._context.blobs))

    def _invalidate(self, lost: set[str], reason: str) -> None:
        if lost:
            _log.warning("steps_lost", jobs=sorted(lost), reason=reason)
            self._append(events.StepsLost(jobs=sorted(lost), reason=reason))

    def run(
        self,
        executor: Executor,
        cells: Sequence[Cell],
        earlier_rounds: Sequence[ReusableRound] = (),
        preflight_event: events.Event | None = None,
    ) -> None:
        """Plays the rest of `cells`; jobs that one of the contest's `earlier_rounds` finished are copied from it (X4).

        `preflight_event` has the results of the checks of the machine or cluster. It is appended before the first job
        is played, and not at all if every job is finished.

        A job that failed in every attempt for a reason of its own is parked. The rest of the round is planned without
        its submission, so that all others are played, replayed and judged, and the round stays open (X1).

        Raises:
            JobsParked: some submissions wait for another run; all others were played.
            InfrastructureFault: something that every job needs failed; finished work stays in the ledger.
            Cancelled: the operator ended the round.
        """
        names = {"contest": self._context.contest, "round": self._context.round}
        noise = self._context.replay.noise
        parked: dict[str, events.JobParked] = {}
        waiting: set[str] = set()
        while True:
            self._make_plan([cell for cell in cells if not {cell.defence, cell.attack} & waiting], earlier_rounds)
            left = len(self._plan.jobs) - len(self._view.finished_jobs & self._plan.by_id.keys())
            _log.info("round_started", **names, jobs=len(self._plan.jobs), left=left, waiting=sorted(waiting))
            if preflight_event is not None and left:
                self._append(preflight_event)
                preflight_event = None
            new = self._play_plan(executor)
            parked |= new
            if all(event.stage is Stage.REPLAY for event in new.values()):  # no other job needs a replay
                break
            waiting |= {event.submission for event in new.values()}
        for job in self._plan.jobs:
            if job.stage is Stage.QUERY and job.id in self._view.finished_jobs:
                self._record_finding(query_findings.query_finding(self._view, _job_record(job, ""), noise))
            if job.stage is Stage.REPLAY and job.id in self._view.finished_jobs:
                self._record_verdict(job)
        if parked:
            raise JobsParked(_parked_message(parked.values()))
        if not self._view.round.closed:
            self._append(events.RoundClosed())
            _log.info("round_closed", **names, findings=len(self._view.round.findings))

    def _play_plan(self, executor: Executor) -> dict[str, events.JobParked]:
        """Plays the rest of the plan; returns the JobParked events of the jobs that were parked, by job."""
        self._import_pictures()
        with closing(FreshCopies(self._context)) as copies:
            parked = self._run_jobs(executor, [job for job in self._plan.jobs if job.stage is not Stage.REPLAY], copies)
            if not parked:  # else some answers are missing, and every replay depends on all of them
                self._commit_answers()
                self._copy_ahead(copies)
                parked = self._run_jobs(executor, self._replays_by_cost(), copies)
        return parked

    def _run_jobs(self, executor: Executor, jobs: Sequence[Job], copies: FreshCopies) -> dict[str, events.JobParked]:
        """Plays the unfinished ones of these jobs; returns the JobParked events of those that were parked, by job."""
        finished = self._view.finished_jobs
        parked: dict[str, events.JobParked] = {}
        left = {job.id for job in jobs} - finished
        if not left:
            return parked
        make_job = partial(self._make_job_runner, copies)
        running = executor.run(Plan(tuple(jobs)), finished, make_job, self._prefers_device)
        with closing(running) as batches:
            for batch in batches:
                self._append(*batch)
                before = len(left)
                for event in batch:
                    if isinstance(event, events.JobFinished):
                        left.discard(event.job)
                    elif isinstance(event, events.JobParked):
                        parked[event.job] = event
                if before > _LAST_JOBS >= len(left) and not parked:
                    self._copy_ahead(copies)
        return parked

    def _copy_ahead(self, copies: FreshCopies) -> None:
        """Begins to copy the images for the replays that are left."""
        finished = self._view.finished_jobs
        copies.make_ahead(job.submission for job in self._replays_by_cost() if job.id not in finished)

    def _replays_by_cost(self) -> list[Job]:
        """Returns the replays of the plan, the longest first, so that no slot is idle while another plays a long one.

        Most of a replay is the start of its sandboxes, so the submission's processor time per sandbox estimates it.
        """
        replays = [job for job in self._plan.jobs if job.stage is Stage.REPLAY]
        cost = {name: self._processor_seconds_per_sandbox(name) for name in {job.submission for job in replays}}
        return sorted(replays, key=lambda job: -cost[job.submission])

    def _processor_seconds_per_sandbox(self, submission: str) -> float:
        seconds = [sandbox.cpu_seconds for sandbox in self._view.round.sandboxes_of(submission)]
        known = [each for each in seconds if each is not None]
        return sum(known) / len(known) if known else 0.0

    def _import_pictures(self) -> None:
        """Appends the events of jobs whose submission is pictures. They need no sandbox, so no executor plays them."""
        for job in self._plan.jobs:
            is_import = job.stage is Stage.PERTURB and job.submission in self._context.picture_sets
            if is_import and job.id not in self._view.finished_jobs:
                self._append(*picture_import.import_events(job, self._context))

    def _make_plan(self, cells: Sequence[Cell], earlier_rounds: Sequence[ReusableRound]) -> None:
        """Makes the plan; appends it if it is new, and copies the events of jobs that an earlier round finished."""
        now = self._view.round
        self._plan = make_plan(
            self._context, cells, reusable_jobs(self._view, earlier_rounds), finished_planned_jobs(self._view)
        )
        origins = {job: past.name for past in reversed(earlier_rounds) for job in past.usable_jobs}
        own_jobs = {job.id for job in now.jobs.values() if not job.origin_round} & now.finished_jobs.keys()
        jobs = [_job_record(job, "" if job.id in own_jobs else origins.get(job.id, "")) for job in self._plan.jobs]
        if now.planned_jobs != tuple(jobs):
            self._invalidate(jobs_without_verdict(self._view), _SUPERSEDED)
            self._append(events.PlanMade(jobs=jobs))
        for past in earlier_rounds:
            done = self._view.finished_jobs
            reused_jobs = [job.id for job in self._plan.jobs if job.id in past.usable_jobs and job.id not in done]
            if reused_jobs:
                copies = past.events_of_jobs(reused_jobs)
                reused = events.JobsReused(round=past.name, head=past.head, jobs=reused_jobs, count=len(copies))
                self._append(reused, *copies)

    def _make_job_runner(self, copies: FreshCopies, job: Job, device: str | None) -> JobRunner:
        copy = copies.take(job.submission) if job.stage is Stage.REPLAY else None
        return JobRunner(job, self._context, self._view, device, copy=copy)

    def _prefers_device(self, job: Job, device: str | None) -> bool:
        """Returns whether a job suits a device: a replay prefers one that the play did not use, to show differences."""
        if device is None or job.stage is not Stage.REPLAY:
            return True
        ends = self._view.round.finished_jobs_of(job.submission)
        played_on = {end.device for end in ends if end.stage is not Stage.REPLAY}
        return device not in played_on

    def _commit_answers(self) -> None:
        """Appends the ledger's head and the digest of all answers, once: the replays are drawn from them."""
        if self._view.round.answers_digest is None:
            answers = findings.answers_digest(self._view)
            self._append(events.PlayClosed(head=self._ledger.head, answers_digest=answers))

    def _record_verdict(self, job: Job) -> None:
        """Appends a finished replay's verdict and its finding, if any, in one batch and only once."""
        context, round_ = self._context, self._view.round
        submission = round_.roster[job.submission]
        new: list[events.Event] = []
        if submission.side is Side.ATTACK:
            finding = findings.make_attack_finding(self._view, job, submission.digest)
        elif job.id in round_.replay_coverage:
            return
        else:
            play, verdict = findings.verdict_on_record(self._view, job, context.check_parameters)
            finding = findings.make_finding(job, submission.digest, play, verdict)
            new.append(findings.verdict_event(job, verdict))
        self._record_finding(finding, *new)

    def _record_finding(self, finding: Finding | None, *before: events.Event) -> None:
        """Appends the events `before`, and in the same batch the finding if it is not recorded yet."""
        new = list(before)
        if finding is not None and finding.id not in {known.id for known in self._view.round.findings}:
            new.append(findings.finding_event(finding))
        self._append(*new)

    def _append(self, *new: events.Event) -> None:
        if not new:
            return
        self._ledger.append(*new, time=self._now())
        for event in new:
            self._view.apply(event)
            self._on_event(event)


def _parked_message(parked: Iterable[events.JobParked]) -> str:
    """Returns a line for each parked submission with the reason, and a line with the remedy."""
    first: dict[str, events.JobParked] = {}
    for event in parked:
        first.setdefault(event.submission, event)
    lines = [f"{name} waits: {event.stage} {event.code}: {event.message}" for name, event in first.items()]
    remedy = "fix what is named above and run the same command again, or take the submission out of the contest"
    return "\n".join([*lines, f"everybody else was played; {remedy}"])


def _job_record(job: Job, origin: str) -> events.JobRecord:
    return events.JobRecord(
        id=job.id,
        stage=job.stage,
        submission=job.submission,
        cells=tuple(events.CellRecord(defence=cell.defence, attack=cell.attack) for cell in job.cells),
        keys=job.keys,
        origin_round=origin,
    )
