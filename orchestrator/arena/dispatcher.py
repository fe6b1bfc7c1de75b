"""A round, from its first event to its last.

The engine plays what the plan says is ready; every event is in the ledger before the engine goes on. A round that was
killed goes on from its ledger: finished jobs and finished steps are never played twice.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import structlog

from orchestrator import __version__
from orchestrator.arena import replay
from orchestrator.arena.performance import Performance
from orchestrator.arena.setting import Setting
from orchestrator.domain import events
from orchestrator.domain.ids import JobId, digest
from orchestrator.domain.plan import Job, Plan, Stage
from orchestrator.engines.base import Engine
from orchestrator.record import Record
from orchestrator.stores.base import Ledger, get_array, put_array
from orchestrator.wire.messages import PROTOCOL_VERSION

Now = Callable[[], str]
"""Returns the time as ISO 8601 in UTC."""
Watch = Callable[[events.Event], None]
"""Sees every event after it is in the ledger."""

_log = structlog.get_logger()


class Dispatcher:
    """Plays one round and writes its ledger.

    Args:
        setting: what stays the same through the round.
        plan: everything that has to be played.
        ledger: where events go, already read into `record`.
        record: the fold of the ledger so far.
        now: the time of an event.
        watch: sees every event.
    """

    def __init__(self, setting: Setting, plan: Plan, ledger: Ledger, record: Record, now: Now, watch: Watch) -> None:
        self._setting, self._plan = setting, plan
        self._ledger, self._record = ledger, record
        self._now, self._watch = now, watch

    def open(self, contest: dict[str, Any]) -> None:
        """Writes the round's first events. The secret's hash is on record before anything is played."""
        setting, task = self._setting, self._setting.task
        opened = events.RoundOpened(
            round=setting.round,
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

    def run(self, engine: Engine) -> None:
        """Plays what is left of the plan.

        Raises:
            InfrastructureFault: a job failed at every attempt; what was finished stays.
            Cancelled: the operator ended the round.
        """
        jobs = [events.JobRecord(id=job.id, stage=job.stage, submission=job.submission) for job in self._plan.jobs]
        if self._record.round.planned != tuple(jobs):
            self._append(events.PlanMade(jobs=jobs))
        self._close_play()
        left = len(self._plan.jobs) - len(self._record.done & self._plan.by_id.keys())
        names = {"contest": self._setting.contest, "round": self._setting.round}
        _log.info("round_started", **names, jobs=len(self._plan.jobs), left=left)
        for event in engine.run(self._plan, self._record.done, self._perform):
            self._append(event)
            if isinstance(event, events.JobFinished):
                self._close_play()
        self._judge_replays()
        if not self._record.round.closed:
            self._append(events.RoundClosed())
            _log.info("round_closed", **names, findings=len(self._record.round.findings))

    def _perform(self, job: Job, device: str | None) -> Performance:
        return Performance(job, self._setting, self._record, device)

    def _close_play(self) -> None:
        """Notes the ledger's head once everything is classified: replays are chosen from it."""
        classified = {job.id for job in self._plan.jobs if job.stage is Stage.CLASSIFY}
        if self._record.round.replay_head is None and classified <= self._record.done:
            self._append(events.PlayClosed(head=self._ledger.head))

    def _judge_replays(self) -> None:
        known = {finding.id for finding in self._record.round.findings}
        for job in self._plan.jobs:
            if job.stage is not Stage.REPLAY:
                continue
            for step in self._record.steps(JobId(job.id)).values():
                rows = get_array(self._setting.blobs, step.blobs["rows"])
                for finding in replay.findings(job.submission, job.cells, rows):
                    if finding.id not in known:
                        body = asdict(finding) | {"finding": finding.kind}
                        body.pop("kind")
                        self._append(events.FindingMade(**body))

    def _append(self, *new: events.Event) -> None:
        self._ledger.append(*new, time=self._now())
        for event in new:
            self._record.apply(event)
            self._watch(event)
