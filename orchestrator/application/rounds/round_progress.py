"""How far rounds are that are asked for or being played, read from their own ledgers while they are played.

Nothing of hidden data is in it: of jobs and cells the numbers are told, which follow from who plays, and what waits is
told by its public code alone.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from orchestrator.domain import events
from orchestrator.domain.plan import Stage
from orchestrator.domain.season import RoundRequest, Season
from orchestrator.domain.text import counted_noun
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.ledger.stores.base import Ledger, LedgerEntry


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that failed at every attempt through a fault of ours, and waits for another run (X1).

    `code` says what failed; its words may name the organizers' machines and are not here.
    """

    submission: str
    stage: Stage
    code: str


_STAGE_TITLES = {
    Stage.PERTURB: "Attacks make their pictures",
    Stage.QUERY: "Attacks query defences",
    Stage.CLASSIFY: "Defences classify",
    Stage.REPLAY: "Answers are asked again",
}


@dataclass(frozen=True, slots=True)
class StageProgress:
    """How far one stage of a round is: jobs, and the cells that they classify, 0 where they classify none."""

    stage: Stage
    planned: int
    finished: int
    cells: int
    cells_finished: int

    @property
    def title(self) -> str:
        """What is done in it, in words."""
        return _STAGE_TITLES[self.stage]

    @property
    def counts(self) -> str:
        """How far it is, in words: `3 of 9 jobs, 12 of 36 cells`."""
        jobs = f"{self.finished} of {counted_noun(self.planned, 'job')}"
        return f"{jobs}, {self.cells_finished} of {counted_noun(self.cells, 'cell')}" if self.cells else jobs


@dataclass(frozen=True, slots=True)
class RoundProgress:
    """One task of a round that is asked for, or that was begun and has not ended.

    Attributes:
        round: its name.
        task: the name of the task.
        requested_at: since when it is asked for, in UTC; empty where nobody asks.
        began_at: since when it is being played, in UTC; empty where it is not begun, or has ended before.
        last_at: when the last entry of its ledger was made; empty where there is none.
        planned: how many jobs its plan has; 0 before there is one.
        finished: how many of them are finished.
        stages: the same by stage, in the order in which they are played; none before there is a plan.
        waiting: the jobs that wait for another run.
    """

    round: str
    task: str
    requested_at: str
    began_at: str
    last_at: str
    planned: int
    finished: int
    stages: tuple[StageProgress, ...]
    waiting: tuple[WaitingJob, ...]


@dataclass(frozen=True, slots=True)
class ContestProgress:
    """What goes on in a contest: its rounds, and how many submissions arrived and are not admitted yet."""

    rounds: tuple[RoundProgress, ...]
    pending_arrivals: int

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked for, being played or waiting to be admitted."""
        return not (self.rounds or self.pending_arrivals)


class _PlannedJob(NamedTuple):
    """What is counted of a job."""

    stage: Stage
    cells: int


class JobCounts:
    """The fold of a round's ledger that knows its jobs and nothing of their contents."""

    def __init__(self) -> None:
        self.number, self.began_at, self.last_at = 0, "", ""
        self._planned: dict[str, _PlannedJob] = {}
        self._finished: set[str] = set()
        self._parked: dict[str, events.JobParked] = {}

    def apply(self, entry: LedgerEntry) -> None:
        """Learns one entry; one that is known already changes nothing."""
        if entry.seq <= self.number:
            return
        self.number, self.last_at = entry.seq, entry.time
        self.began_at = self.began_at or entry.time
        match entry.event:
            case events.PlanMade(jobs=jobs):
                # A replay asks about cells that were classified already.
                classified = {job.id: 0 if job.stage is Stage.REPLAY else len(job.cells) for job in jobs}
                self._planned = {job.id: _PlannedJob(job.stage, classified[job.id]) for job in jobs}
                self._parked = {}
            case events.JobFinished(job=job):
                self._finished.add(job)
                self._parked.pop(job, None)
            case events.StepsInvalidated(jobs=lost):
                self._finished.difference_update(lost)
            case events.JobParked() as parked:
                self._parked[parked.job] = parked
            case events.RoundClosed():
                self.began_at, self._parked = "", {}

    @property
    def planned(self) -> int:
        """How many jobs the last plan has."""
        return len(self._planned)

    @property
    def finished(self) -> int:
        """How many of them are finished."""
        return len(self._planned.keys() & self._finished)

    @property
    def stages(self) -> tuple[StageProgress, ...]:
        """How far each stage of the last plan is, in the order in which they are played."""
        found = []
        for stage in Stage:
            cells = {job: planned.cells for job, planned in self._planned.items() if planned.stage is stage}
            done = cells.keys() & self._finished
            if cells:
                found.append(
                    StageProgress(stage, len(cells), len(done), sum(cells.values()), sum(cells[job] for job in done))
                )
        return tuple(found)

    @property
    def waiting(self) -> tuple[WaitingJob, ...]:
        """What waits for another run, each once."""
        parked = (WaitingJob(each.submission, each.stage, each.code) for each in self._parked.values())
        return tuple(dict.fromkeys(parked))


class ProgressReader:
    """Reads the ledgers of a contest's rounds, each entry once; safe to be asked by several threads."""

    def __init__(self, folder: ContestFolder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._open: dict[Path, tuple[Ledger, JobCounts]] = {}

    def read(self, contest: Contest, season: Season) -> ContestProgress:
        """Returns what goes on now. Raises StoreFault where a ledger cannot be read."""
        with self._lock:
            found = [
                progress
                for task in (each.name for each in contest.file.all_tasks)
                for one in contest.format.rounds(season, task)
                if (progress := self._progress(one.name, task, season.round_requests.values())) is not None
            ]
        return ContestProgress(tuple(found), len(season.pending_arrivals))

    def close(self) -> None:
        """Lets go of all ledgers."""
        with self._lock:
            for ledger, _ in self._open.values():
                ledger.close()
            self._open.clear()

    def _progress(self, name: str, task: str, requests: Iterable[RoundRequest]) -> RoundProgress | None:
        """Returns how far a round is; None where nobody asks for it and it was not begun or has ended."""
        asked = [each.time for each in requests if each.round == name and each.task in ("", task)]
        counts = self._counts(self._folder.round(name, task))
        if not asked and not counts.began_at:
            return None
        return RoundProgress(
            round=name,
            task=task,
            requested_at=min(asked, default=""),
            began_at=counts.began_at,
            last_at=counts.last_at,
            planned=counts.planned,
            finished=counts.finished,
            stages=counts.stages,
            waiting=counts.waiting,
        )

    def _counts(self, folder: RoundFolder) -> JobCounts:
        if folder.path not in self._open:
            if not folder.exists:
                return JobCounts()
            ledger, counts = folder.ledger(), JobCounts()
            self._open[folder.path] = ledger, counts
            for entry in ledger.read():
                counts.apply(entry)
        ledger, counts = self._open[folder.path]
        for entry in ledger.read_new():
            counts.apply(entry)
        return counts


def progress_lines(progress: ContestProgress) -> list[str]:
    """Returns what goes on in words, a line for each round and each thing that waits, for a terminal."""
    lines = []
    for each in progress.rounds:
        lines.append(f"{each.round} of {each.task}: {state_in_words(each)}")
        lines += [f"  {stage.title}: {stage.counts}" for stage in each.stages]
        lines += [f"  {job.submission} waits for another run ({job.stage}, {job.code})" for job in each.waiting]
    if progress.pending_arrivals:
        lines.append(f"{progress.pending_arrivals} submissions arrived and wait to be admitted")
    return lines or ["nothing is being played, and nothing waits"]


def state_in_words(progress: RoundProgress) -> str:
    """Returns where a round stands, in words."""
    if not progress.began_at:
        return "asked for, and waits to be played"
    if not progress.planned:
        return "begun; its jobs are being planned"
    jobs = f"{progress.finished} of {progress.planned} jobs finished"
    return f"{jobs}, the rest wait for another run" if progress.waiting else jobs
