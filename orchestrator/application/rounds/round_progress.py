"""The progress of requested and running rounds, read from their own ledgers while they are played.

It shows nothing of hidden data: only numbers of jobs and cells, which follow from the roster, and the public codes of
the faults for which jobs wait.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from orchestrator.domain import events
from orchestrator.domain.plan import Stage
from orchestrator.domain.round import playing_submissions
from orchestrator.domain.season import RoundRequest, Season
from orchestrator.domain.text import counted_noun
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.ledger.stores.base import Ledger, LedgerEntry


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that failed at every attempt through a fault of ours, and waits for another run (X1).

    `code` is the fault's code. The fault's message is left out, since it may name the organizers' machines.
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
    """The progress of one stage of a round: its jobs, and the cells that they classify, 0 if they classify none."""

    stage: Stage
    planned: int
    finished: int
    cells: int
    cells_finished: int

    @property
    def title(self) -> str:
        """What happens in the stage, in words."""
        return _STAGE_TITLES[self.stage]

    @property
    def counts(self) -> str:
        """The progress in words, such as `3 of 9 jobs, 12 of 36 cells`."""
        jobs = f"{self.finished} of {counted_noun(self.planned, 'job')}"
        return f"{jobs}, {self.cells_finished} of {counted_noun(self.cells, 'cell')}" if self.cells else jobs


@dataclass(frozen=True, slots=True)
class RoundProgress:
    """The progress of one task of a round that is requested, or that was begun and has not ended.

    Attributes:
        round: the round's name.
        task: the task's name.
        requested_at: the time of the first open request, in UTC; empty without one.
        began_at: the time when it was begun, in UTC; empty if it was not begun, or was complete before.
        last_at: the time of the last entry of its ledger; empty without one.
        planned: the number of jobs in its plan; 0 before there is one.
        finished: the number of these jobs that are finished.
        stages: the same by stage, in the order in which they are played; empty before there is a plan.
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
    """The work in a contest: rounds that are requested or played, and the number of arrivals without an outcome."""

    rounds: tuple[RoundProgress, ...]
    pending_arrivals: int

    @property
    def is_idle(self) -> bool:
        """Whether no round is requested or played, and no arrival waits."""
        return not (self.rounds or self.pending_arrivals)


class _PlannedJob(NamedTuple):
    """A planned job's stage, and the number of cells that it classifies."""

    stage: Stage
    cells: int


class JobCounts:
    """A fold of a round's ledger that counts jobs and reads nothing of their contents."""

    def __init__(self) -> None:
        self.number, self.began_at, self.last_at = 0, "", ""
        self._planned: dict[str, _PlannedJob] = {}
        self._finished: set[str] = set()
        self._parked: dict[str, events.JobParked] = {}

    def apply(self, entry: LedgerEntry) -> None:
        """Applies one entry; does nothing if it was applied already."""
        if entry.seq <= self.number:
            return
        self.number, self.last_at = entry.seq, entry.time
        self.began_at = self.began_at or entry.time
        match entry.event:
            case events.PlanMade(jobs=jobs):
                # A replay asks about cells that were classified already.
                classified = {job.id: 0 if job.stage is Stage.REPLAY else len(job.cells) for job in jobs}
                self._planned = {job.id: _PlannedJob(job.stage, classified[job.id]) for job in jobs}
                again = {submission for job in jobs for submission in playing_submissions(job)}
                # The rest of a round is planned without a submission that waits.
                self._parked = {job: event for job, event in self._parked.items() if event.submission not in again}
            case events.JobFinished(job=job):
                self._finished.add(job)
                self._parked.pop(job, None)
            case events.StepsLost(jobs=lost):
                self._finished.difference_update(lost)
            case events.JobParked() as parked:
                self._parked[parked.job] = parked
            case events.RoundClosed():
                self.began_at, self._parked = "", {}

    @property
    def planned(self) -> int:
        """The number of jobs in the latest plan."""
        return len(self._planned)

    @property
    def finished(self) -> int:
        """The number of jobs in the latest plan that are finished."""
        return len(self._planned.keys() & self._finished)

    @property
    def stages(self) -> tuple[StageProgress, ...]:
        """The progress of each stage of the latest plan, in the order in which stages are played."""
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
        """The jobs that wait for another run, without duplicates."""
        parked = (WaitingJob(each.submission, each.stage, each.code) for each in self._parked.values())
        return tuple(dict.fromkeys(parked))


class ProgressReader:
    """Reads the ledgers of a contest's rounds, each entry once. Several threads may use it."""

    def __init__(self, folder: ContestFolder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._open: dict[Path, tuple[Ledger, JobCounts]] = {}

    def read(self, contest: Contest, season: Season) -> ContestProgress:
        """Returns the contest's present progress. Raises StoreFault if a ledger cannot be read."""
        with self._lock:
            found = [
                progress
                for task in (each.name for each in contest.file.all_tasks)
                for one in contest.format.rounds(season, task)
                if (progress := self._progress(one.name, task, season.round_requests.values())) is not None
            ]
        return ContestProgress(tuple(found), len(season.pending_arrivals))

    def close(self) -> None:
        """Closes all ledgers."""
        with self._lock:
            for ledger, _ in self._open.values():
                ledger.close()
            self._open.clear()

    def _progress(self, name: str, task: str, requests: Iterable[RoundRequest]) -> RoundProgress | None:
        """Returns a round's progress; None if it is not requested, and was not begun or has ended."""
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
    """Returns the progress in words for a terminal, a line for each round, stage and waiting job."""
    lines = []
    for each in progress.rounds:
        lines.append(f"{each.round} of {each.task}: {state_in_words(each)}")
        lines += [f"  {stage.title}: {stage.counts}" for stage in each.stages]
        lines += [f"  {job.submission} waits for another run ({job.stage}, {job.code})" for job in each.waiting]
    if progress.pending_arrivals:
        lines.append(f"{progress.pending_arrivals} submissions arrived and wait to be admitted")
    return lines or ["nothing is being played, and nothing waits"]


def state_in_words(progress: RoundProgress) -> str:
    """Returns the state of a round in words."""
    if not progress.began_at:
        return "requested, and waits to be played"
    if not progress.planned:
        return "begun; its jobs are being planned"
    jobs = f"{progress.finished} of {progress.planned} jobs finished"
    return f"{jobs}, the rest wait for another run" if progress.waiting else jobs
