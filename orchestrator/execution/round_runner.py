"""A round, from its first event to its last.

The engine plays what the plan says is ready; every event is in the ledger before the engine goes on. A round that was
killed goes on from its ledger: finished jobs and finished steps are never played twice.
"""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import asdict
from typing import Any

import structlog

from orchestrator import __version__
from orchestrator.domain import events
from orchestrator.domain.ids import JobId, digest
from orchestrator.domain.plan import Cell, Job, Plan, Stage
from orchestrator.domain.submissions import Side
from orchestrator.errors import JobsParked
from orchestrator.execution.job_runner import JobRunner
from orchestrator.execution.planner import make_plan
from orchestrator.execution.reuse import (
    ReusableRound,
    damaged_jobs,
    finished_planned_jobs,
    jobs_without_verdict,
    reusable_jobs,
)
from orchestrator.execution.round_context import RoundContext
from orchestrator.executors.base import Executor
from orchestrator.integrity import findings
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import Ledger, put_array
from orchestrator.protocol.messages import PROTOCOL_VERSION

CurrentTime = Callable[[], str]
"""Returns the time as ISO 8601 in UTC."""
EventCallback = Callable[[events.Event], None]
"""Sees every event after it is in the ledger."""

_SUPERSEDED = "another plan has other answers, and from these other replays follow; these were not judged yet"

_log = structlog.get_logger()


class RoundRunner:
    """Plays one round and writes its ledger.

    Args:
        setting: what stays the same through the round.
        ledger: where events go, already read into `record`.
        record: the fold of the ledger so far.
        now: the time of an event.
        watch: sees every event.
    """

    def __init__(
        self, setting: RoundContext, ledger: Ledger, record: RoundView, now: CurrentTime, watch: EventCallback
    ) -> None:
        self._setting, self._plan = setting, Plan(())
        self._ledger, self._record = ledger, record
        self._now, self._watch = now, watch

    def open(self, contest: dict[str, Any], phase: str = "") -> None:
        """Writes the round's first events. The secret's hash is on record before anything is played."""
        setting, task = self._setting, self._setting.task
        opened = events.RoundOpened(
            round=setting.round,
            phase=phase,
            contest=contest,
            task=events.TaskRecord(
                name=task.name,
                classes=list(task.classes),
                shape=list(task.shape),
                count=task.count,
                digest=task.digest,
                norm=task.budget.norm,
                epsilon=str(task.budget.epsilon),
                pixels=put_array(setting.blobs, setting.samples.pixels),
                labels=put_array(setting.blobs, setting.samples.labels),
            ),
            backend=setting.backend.name,
            commitment=digest(setting.secret),
            software=__version__,
            protocol=PROTOCOL_VERSION,
        )
        self._append(opened, *(events.SubmissionAdmitted(**asdict(s)) for s in setting.roster))

    def grow(self) -> None:
        """Admits the submissions that came since the round was opened: only what is new is played (X4)."""
        known = {submission.id for submission in self._record.round.roster}
        self._append(*(events.SubmissionAdmitted(**asdict(s)) for s in self._setting.roster if s.id not in known))

    def mend(self) -> None:
        """Takes back what cannot be read any more: it is played again, with everything that was built on it."""
        self._take_back(*damaged_jobs(self._record, self._setting.blobs))

    def _take_back(self, lost: set[str], reason: str) -> None:
        if lost:
            _log.warning("steps_lost", jobs=sorted(lost), reason=reason)
            self._append(events.StepsInvalidated(jobs=sorted(lost), reason=reason))

    def run(
        self,
        engine: Executor,
        cells: Sequence[Cell],
        earlier: Sequence[ReusableRound] = (),
        noted: events.Event | None = None,
    ) -> None:
        """Plays what is left of `cells`; what an `earlier` round of the contest finished is copied from it (X4).

        What was found of the place where it is played is `noted` before anything is played there, and only then: a
        run that finds everything finished adds nothing to the ledger.

        A submission whose job failed at every attempt, for a reason of its own, waits: the rest of the round is planned
        without it, so that everybody else is played, replayed and judged, and the round stays open (X1).

        Raises:
            Parked: some submissions wait for another run; everybody else was played.
            InfrastructureFault: something that every job needs failed; what was finished stays.
            Cancelled: the operator ended the round.
        """
        names = {"contest": self._setting.contest, "round": self._setting.round}
        parked: dict[str, events.JobParked] = {}
        waiting: set[str] = set()
        while True:
            self._make_plan([cell for cell in cells if not {cell.defence, cell.attack} & waiting], earlier)
            left = len(self._plan.jobs) - len(self._record.done & self._plan.by_id.keys())
            _log.info("round_started", **names, jobs=len(self._plan.jobs), left=left, waiting=sorted(waiting))
            if noted is not None and left:
                self._append(noted)
                noted = None
            new = self._play(engine)
            parked |= new
            if all(event.stage is Stage.REPLAY for event in new.values()):  # which nothing else needs
                break
            waiting |= {event.submission for event in new.values()}
        for job in self._plan.jobs:
            if job.stage is Stage.REPLAY and job.id in self._record.done:
                self._judge(job)
        if parked:
            raise JobsParked(_parked_message(parked.values()))
        if not self._record.round.closed:
            self._append(events.RoundClosed())
            _log.info("round_closed", **names, findings=len(self._record.round.findings))

    def _play(self, engine: Executor) -> dict[str, events.JobParked]:
        """Plays what is left of the plan; returns the jobs that were parked."""
        open_ = {job.id for job in self._plan.jobs if job.stage is Stage.CLASSIFY} - self._record.done
        self._close_play(open_)
        parked: dict[str, events.JobParked] = {}
        with closing(engine.run(self._plan, self._record.done, self._perform, self._suits)) as happening:
            for happened in happening:
                self._append(*happened)
                ended = {JobId(event.job) for event in happened if isinstance(event, events.JobFinished)} & open_
                if ended:
                    open_ -= ended
                    self._close_play(open_)
                parked |= {event.job: event for event in happened if isinstance(event, events.JobParked)}
        return parked

    def _make_plan(self, cells: Sequence[Cell], earlier: Sequence[ReusableRound]) -> None:
        """Notes the plan, and what of it an earlier round finished."""
        now = self._record.round
        self._plan = make_plan(
            self._setting, cells, reusable_jobs(self._record, earlier), finished_planned_jobs(self._record)
        )
        origins = {job: past.name for past in reversed(earlier) for job in past.finished}
        own = {job.id for job in now.jobs.values() if not job.origin} & now.finished.keys()
        jobs = [_job_record(job, "" if job.id in own else origins.get(job.id, "")) for job in self._plan.jobs]
        if now.planned != tuple(jobs):
            self._take_back(jobs_without_verdict(self._record), _SUPERSEDED)
            self._append(events.PlanMade(jobs=jobs))
        for past in earlier:
            done = self._record.done
            wanted = [job.id for job in self._plan.jobs if job.id in past.finished and job.id not in done]
            if wanted:
                copies = past.copies(wanted)
                reused = events.JobsReused(round=past.name, head=past.head, jobs=wanted, count=len(copies))
                self._append(reused, *copies)

    def _perform(self, job: Job, device: str | None) -> JobRunner:
        return JobRunner(job, self._setting, self._record, device)

    def _suits(self, job: Job, device: str | None) -> bool:
        """Returns whether a replay would run on another device than the play: what depends on the device then shows."""
        if device is None or job.stage is not Stage.REPLAY:
            return True
        ends = self._record.round.finished_of(job.submission)
        played_on = {end.device for end in ends if end.stage is not Stage.REPLAY}
        return device not in played_on

    def _close_play(self, left: AbstractSet[JobId]) -> None:
        """Notes the ledger's head and what was answered once nothing is `left` to classify: replays follow from it."""
        if self._record.round.answers is None and not left:
            answers = findings.answers_digest(self._record)
            self._append(events.AnswersCommitted(head=self._ledger.head, answers=answers))

    def _judge(self, job: Job) -> None:
        """Notes what a finished replay covered and what it proves, once and together."""
        setting, round_ = self._setting, self._record.round
        submission = round_.roster[job.submission]
        new: list[events.Event] = []
        if submission.side is Side.ATTACK:
            finding = findings.make_attack_finding(self._record, job, submission.digest)
        elif job.id in round_.replays:
            return
        else:
            play, verdict = findings.verdict_on_record(self._record, job, setting.examined)
            finding = findings.make_finding(job, submission.digest, play, verdict)
            new.append(findings.verdict_event(job, verdict))
        if finding is not None and finding.id not in {known.id for known in round_.findings}:
            body = asdict(finding) | {"finding": finding.kind}
            body.pop("kind")
            new.append(events.FindingMade(**body))
        self._append(*new)

    def _append(self, *new: events.Event) -> None:
        if not new:
            return
        self._ledger.append(*new, time=self._now())
        for event in new:
            self._record.apply(event)
            self._watch(event)


def _parked_message(parked: Iterable[events.JobParked]) -> str:
    """Returns who waits, and why, in one line each."""
    first: dict[str, events.JobParked] = {}
    for event in parked:
        first.setdefault(event.submission, event)
    lines = [f"{name} waits: {event.stage} {event.code}: {event.message}" for name, event in first.items()]
    remedy = "mend what is said above and run the same command again, or take the submission out of the contest"
    return "\n".join([*lines, f"everybody else was played; {remedy}"])


def _job_record(job: Job, origin: str) -> events.JobRecord:
    return events.JobRecord(
        id=job.id,
        stage=job.stage,
        submission=job.submission,
        cells=tuple(events.CellRecord(defence=cell.defence, attack=cell.attack) for cell in job.cells),
        keys=job.keys,
        origin=origin,
    )
