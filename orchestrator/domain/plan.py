"""The work of a round: cells, jobs and the plan that orders them."""

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
    """An attack makes pictures for one defence, and queries the defence while it makes them."""
    CLASSIFY = "classify"
    """A defence classifies pictures."""
    REPLAY = "replay"
    """A submission gets questions again that it got before (rules A9, A10, X3)."""


class Cell(NamedTuple):
    """A defence against one attack, or against clean pictures (no attack).

    A tuple, as a large round looks cells up millions of times, and a dataclass computes its hash in Python.
    """

    defence: str
    attack: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A unit of work for which sandboxes are started.

    `submission` is the player; in a query job the defence. `cells` are the cells whose pictures a defence sees; empty
    for an attack. `needs` are the jobs that must be finished before. `keys` holds, for each cell, a digest of
    everything that its answers depend on (X4).
    """

    id: JobId
    stage: Stage
    submission: str
    cells: tuple[Cell, ...] = ()
    needs: frozenset[JobId] = frozenset()
    keys: tuple[str, ...] = ()

    @property
    def seed_parts(self) -> tuple[str, ...]:
        """What identifies the job in seeds. It is the same on every backend; the id depends on the image's digest.

        Everything that is drawn from the round's secret for a job depends on these parts, so that the same round with
        the same secret asks the same questions in the same order everywhere.
        """
        return (self.stage, self.submission, *(cell.attack or "" for cell in self.cells))


@dataclass(frozen=True)
class Plan:
    """All jobs of a round, in order of preference."""

    jobs: tuple[Job, ...]

    @cached_property
    def by_id(self) -> dict[JobId, Job]:
        """The jobs by their ids."""
        return {job.id: job for job in self.jobs}

    def ready_queue(self, done: AbstractSet[JobId]) -> "ReadyQueue":
        """Returns a queue of the jobs that are not in `done`. To resume a round, read `done` from the ledger."""
        return ReadyQueue(self, done)


class ReadyQueue:
    """The scheduler: the jobs of a plan that are left while a round is played.

    A job is ready if it is not done and all its needs are. When a job is finished, only the jobs that wait for it are
    examined. Jobs with the same set of needs, as all replays have, are counted as one group.
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
        """Removes and returns the first ready job that `accepts` returns true for, None if there is none now."""
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
        """Marks a job as done. Jobs that waited only for it become ready."""
        self._remaining.discard(job)
        for needs in self._waiting.pop(job, ()):
            self._missing[needs] -= 1
            if not self._missing[needs]:
                for position in self._groups[needs]:
                    heappush(self._ready, position)
