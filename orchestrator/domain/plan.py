"""What is to be played: cells, jobs and the plan that orders them."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

from orchestrator.domain.ids import JobId


class Stage(StrEnum):
    """What kind of work a job is."""

    PERTURB = "perturb"
    """An attack makes pictures for all defences at once."""
    QUERY = "query"
    """An attack makes pictures for one defence, which it asks about them meanwhile."""
    CLASSIFY = "classify"
    """A defence classifies pictures."""
    REPLAY = "replay"
    """A submission is asked again what it was asked before (rules A9, A10, X3)."""


class Cell(NamedTuple):
    """A defence against one attack, or against clean pictures (no attack).

    A tuple, as a large round looks cells up millions of times, and a dataclass computes its hash in Python.
    """

    defence: str
    attack: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What a sandbox is started for.

    `submission` is who plays; in a query job the defence. `cells` are the cells whose pictures a defence sees; empty
    for an attack. `needs` are the jobs that must be finished before. `keys` hold, per cell, a digest of everything that
    goes into it (X4).
    """

    id: JobId
    stage: Stage
    submission: str
    cells: tuple[Cell, ...] = ()
    needs: frozenset[JobId] = frozenset()
    keys: tuple[str, ...] = ()

    @property
    def seed_parts(self) -> tuple[str, ...]:
        """Whose work in a round it is, in words that are the same on every backend: an id has the image's digest in it.

        What is drawn from the round's secret for a job is drawn by this, so that the same round under the same secret
        asks the same questions in the same order everywhere.
        """
        return (self.stage, self.submission, *(cell.attack or "" for cell in self.cells))


@dataclass(frozen=True)
class Plan:
    """All jobs of a round, in the order in which they are preferred."""

    jobs: tuple[Job, ...]

    @cached_property
    def by_id(self) -> dict[JobId, Job]:
        """The jobs by their ids."""
        return {job.id: job for job in self.jobs}

    def ready_queue(self, done: AbstractSet[JobId]) -> "ReadyQueue":
        """Returns what is left, ready to be taken job by job. To resume is to read `done` from the ledger."""
        return ReadyQueue(self, done)


class ReadyQueue:
    """The whole scheduler: what is left of a plan while work goes on.

    A job is ready when it is not done and everything it needs is; after each only those that waited for it are looked
    at. Jobs that wait for the same set of needs, as all replays do, are counted as one group.
    """

    def __init__(self, plan: Plan, done: AbstractSet[JobId]) -> None:
        self._jobs = plan.jobs
        self._missing: dict[frozenset[JobId], int] = {}
        self._groups: dict[frozenset[JobId], list[int]] = {}
        self._waiting: dict[JobId, list[frozenset[JobId]]] = {}
        self._ready: list[int] = []
        left = [(position, job) for position, job in enumerate(plan.jobs) if job.id not in done]
        self._remaining = {job.id for _, job in left}
        for position, job in left:
            if job.needs not in self._groups:
                missing = job.needs - done
                self._missing[job.needs] = len(missing)
                for need in missing:
                    self._waiting.setdefault(need, []).append(job.needs)
            self._groups.setdefault(job.needs, []).append(position)
            if not self._missing[job.needs]:
                heappush(self._ready, position)

    @property
    def remaining(self) -> list[JobId]:
        """The jobs that are not finished, in the plan's order."""
        return [job.id for job in self._jobs if job.id in self._remaining]

    def take(self, accepts: Callable[[Job], bool] = lambda _: True) -> Job | None:
        """Returns the first ready job that is wanted, once; None where there is none now."""
        passed: list[int] = []
        ready_job = None
        while self._ready and ready_job is None:
            position = heappop(self._ready)
            if accepts(self._jobs[position]):
                ready_job = self._jobs[position]
            else:
                passed.append(position)
        for position in passed:
            heappush(self._ready, position)
        return ready_job

    def mark_finished(self, job: JobId) -> None:
        """Notes that a job is done: what waited for it alone is ready."""
        self._remaining.discard(job)
        for needs in self._waiting.pop(job, ()):
            self._missing[needs] -= 1
            if not self._missing[needs]:
                for position in self._groups[needs]:
                    heappush(self._ready, position)
