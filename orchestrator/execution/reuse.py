"""What is at hand before a round is played: finished work of this round and of the contest's earlier ones.

Work whose arrays are missing or damaged is not at hand, nor is what was built on it.
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
    """An earlier round of the same task: its name, the hash of its ledger's last entry, and what of it is intact."""

    name: str
    head: str
    record: RoundView
    finished: dict[str, events.JobRecord] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, head: str, record: RoundView, blobs: Blobs) -> "ReusableRound":
        """Returns a round with what of it can be used again."""
        lost, _ = damaged_jobs(record, blobs)
        jobs = {name: job for name, job in _usable_jobs(record).items() if name not in lost}
        return cls(name, head, record, jobs)

    def copies(self, jobs: Sequence[str]) -> list[events.Event]:
        """Returns the events of these jobs: steps, ends, what replays covered and what they proved."""
        found: list[events.Event] = []
        round_ = self.record.round
        for job in jobs:
            found += [step for _, step in sorted(round_.steps.get(job, {}).items())]
            found.append(round_.finished[job])
            found += [event for event in round_.judgements if event.job == job]
        return found


def reusable_jobs(record: RoundView, earlier: Sequence[ReusableRound]) -> list[events.JobRecord]:
    """Returns the finished jobs of this round, then those of earlier ones."""
    own = _usable_jobs(record)
    return [*own.values(), *(job for past in earlier for name, job in past.finished.items() if name not in own)]


def finished_planned_jobs(record: RoundView, finished: Container[str] | None = None) -> list[events.JobRecord]:
    """Returns the jobs of a round's last plan that are finished, in its order: they stay, whoever left since.

    `finished` are those of its jobs that can be used; without it they are looked up.
    """
    usable = _usable_jobs(record) if finished is None else finished
    return [job for job in record.round.planned if job.id in usable]


def jobs_without_verdict(record: RoundView) -> set[str]:
    """Returns the replays of defences that were begun, perhaps finished, and not judged.

    What they ask follows from all answers of the round as it was planned: with other answers they ask something else.
    """
    round_ = record.round
    begun = (round_.jobs[job] for job in round_.steps.keys() | round_.finished.keys() if job in round_.jobs)
    return {job.id for job in begun if job.stage is Stage.REPLAY and job.cells and job.id not in round_.replays}


def _usable_jobs(record: RoundView) -> dict[str, events.JobRecord]:
    """Returns the finished jobs of a round that another plan may use: they follow from what is in their keys alone."""
    left = record.round.finished.keys() - jobs_without_verdict(record)
    return {name: job for name, job in record.round.jobs.items() if name in left}


def damaged_jobs(record: RoundView, blobs: Blobs) -> tuple[set[str], str]:
    """Returns the jobs some of whose arrays cannot be read, with all that was built on them, and the first reason."""
    lost: set[str] = set()
    reason = ""
    for job, steps in record.round.steps.items():
        for digest in (digest for step in steps.values() for digest in step.blobs.values()):
            try:
                blobs.get(digest)
            except StoreFault as fault:
                lost.add(job)
                reason = reason or str(fault)
                break
    jobs = record.round.jobs
    attacks = {jobs[job].submission for job in lost if job in jobs and jobs[job].stage is Stage.PERTURB}
    built = {job.id for job in jobs.values() if any(cell.attack in attacks for cell in job.cells)}
    lost |= built & record.round.steps.keys()
    cells = {(c.defence, c.attack) for job in lost if job in jobs for c in jobs[job].cells}
    lost |= {
        job.id
        for job in jobs.values()
        if job.stage is Stage.REPLAY and job.id in record.round.steps and _any_cell_in(job.cells, cells)
    }
    return lost, reason


def _any_cell_in(cells: Iterable[events.CellRecord], wanted: set[tuple[str, str | None]]) -> bool:
    return any((cell.defence, cell.attack) in wanted for cell in cells)
