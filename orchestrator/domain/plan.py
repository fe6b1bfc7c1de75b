"""What is to be played: cells, jobs and the plan that orders them."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from orchestrator.domain.ids import JobId


class Stage(StrEnum):
    """What kind of work a job is."""

    PERTURB = "perturb"
    CLASSIFY = "classify"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A defence against one attack, or against clean pictures (no attack)."""

    defence: str
    attack: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What a sandbox is started for.

    `submission` is who plays. `cells` are the cells whose pictures a defence sees; empty for an attack. `needs` are the
    jobs that must be finished before.
    """

    id: JobId
    stage: Stage
    submission: str
    cells: tuple[Cell, ...] = ()
    needs: frozenset[JobId] = frozenset()


@dataclass(frozen=True)
class Plan:
    """All jobs of a round, in the order in which they are preferred."""

    jobs: tuple[Job, ...]

    @cached_property
    def by_id(self) -> dict[JobId, Job]:
        """The jobs by their ids."""
        return {job.id: job for job in self.jobs}

    def ready(self, done: AbstractSet[JobId]) -> list[Job]:
        """Returns the jobs that can start now. The whole scheduler: to resume is to read `done` from the ledger."""
        return [job for job in self.jobs if job.id not in done and job.needs <= done]
