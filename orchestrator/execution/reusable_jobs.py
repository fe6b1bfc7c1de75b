"""Finds the finished jobs that a round can use before it is played: its own and those of the contest's earlier rounds.

A job with missing or damaged arrays is not usable, nor is a job that was built on it.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from orchestrator.domain import events
from orchestrator.domain.plan import Stage
from orchestrator.errors import StoreFault
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import Blobs


@dataclass(frozen=True)
class ReusableRound:
    """A round of the same task: its name, the hash of its ledger's last entry, and its usable jobs by their ids."""

    name: str
    head: str
    view: RoundView
    usable_jobs: dict[str, events.JobRecord] = field(default_factory=dict)

    @classmethod
    def from_view(cls, name: str, head: str, view: RoundView, blobs: Blobs) -> "ReusableRound":
        """Returns a round with those of its jobs that can be used again."""
        lost, _ = damaged_jobs(view, blobs)
        jobs = {name: job for name, job in _usable_jobs(view).items() if name not in lost}
        return cls(name, head, view, jobs)

    def events_of_jobs(self, jobs: Sequence[str]) -> list[events.Event]:
        """Returns the events of these jobs: their steps and ends, and the verdicts and findings of replays."""
        job_events: list[events.Event] = []
        round_ = self.view.round
        for job in jobs:
            job_events += [step for _, step in sorted(round_.steps.get(job, {}).items())]
            job_events.append(round_.finished_jobs[job])
            job_events += [event for event in round_.judgements if event.job == job]
        return job_events


def reusable_jobs(view: RoundView, earlier_rounds: Sequence[ReusableRound]) -> list[events.JobRecord]:
    """Returns the finished jobs of this round, then those of earlier ones."""
    own_jobs = _usable_jobs(view)
    return [
        *own_jobs.values(),
        *(job for past in earlier_rounds for name, job in past.usable_jobs.items() if name not in own_jobs),
    ]


def finished_planned_jobs(view: RoundView, usable_jobs: Container[str] | None = None) -> list[events.JobRecord]:
    """Returns the finished jobs of a round's last plan, in its order, also of submissions that left since.

    `usable_jobs` are the ids of its usable jobs; without it they are looked up.
    """
    usable = _usable_jobs(view) if usable_jobs is None else usable_jobs
    return [job for job in view.round.planned_jobs if job.id in usable]


def jobs_without_verdict(view: RoundView) -> set[str]:
    """Returns the replays of defences that were begun, perhaps finished, and not judged.

    Their questions are drawn from all answers of the round as it was planned; other answers lead to other questions.
    """
    round_ = view.round
    jobs = (round_.jobs[job] for job in round_.steps.keys() | round_.finished_jobs.keys() if job in round_.jobs)
    return {job.id for job in jobs if job.stage is Stage.REPLAY and job.cells and job.id not in round_.replay_coverage}


def _usable_jobs(view: RoundView) -> dict[str, events.JobRecord]:
    """Returns the finished jobs of a round that another plan may use: they depend only on the inputs of their keys."""
    usable = view.round.finished_jobs.keys() - jobs_without_verdict(view)
    return {name: job for name, job in view.round.jobs.items() if name in usable}


def damaged_jobs(view: RoundView, blobs: Blobs) -> tuple[set[str], str]:
    """Returns the jobs with unreadable arrays, with all jobs that were built on them, and the first reason."""
    lost: set[str] = set()
    reason = ""
    for job, steps in view.round.steps.items():
        for digest in (digest for step in steps.values() for digest in step.blobs.values()):
            try:
                blobs.get(digest)
            except StoreFault as fault:
                lost.add(job)
                reason = reason or str(fault)
                break
    jobs = view.round.jobs
    attacks = {jobs[job].submission for job in lost if job in jobs and jobs[job].stage is Stage.PERTURB}
    queried = {
        (c.defence, c.attack) for job in lost if job in jobs and jobs[job].stage is Stage.QUERY for c in jobs[job].cells
    }
    built = {
        job.id
        for job in jobs.values()
        if any(cell.attack in attacks for cell in job.cells)
        or (job.stage is Stage.CLASSIFY and _any_cell_in(job.cells, queried))
    }
    lost |= built & view.round.steps.keys()
    cells = {(c.defence, c.attack) for job in lost if job in jobs for c in jobs[job].cells}
    lost |= {
        job.id
        for job in jobs.values()
        if job.stage is Stage.REPLAY and job.id in view.round.steps and _any_cell_in(job.cells, cells)
    }
    return lost, reason


def _any_cell_in(cells: Iterable[events.CellRecord], keys: set[tuple[str, str | None]]) -> bool:
    return any((cell.defence, cell.attack) in keys for cell in cells)
