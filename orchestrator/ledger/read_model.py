"""The state of a round with its arrays. Execution and scoring share nothing else."""

import threading
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain import events
from orchestrator.domain.ids import JobId
from orchestrator.domain.outcomes import NOT_ASKED, NOT_PLAYED, Answers, Scores
from orchestrator.domain.plan import Cell, Stage
from orchestrator.domain.queries import QueryFailure, QueryRecord
from orchestrator.domain.round import Round
from orchestrator.domain.samples import AdversarialExamples, Samples
from orchestrator.domain.submissions import Side
from orchestrator.errors import StoreFault
from orchestrator.ledger.example_cache import ExampleCache
from orchestrator.ledger.stores.base import Blobs, get_array


class RoundView:
    """The fold of a round's ledger. Any thread may read it while one thread applies events.

    Arrays are read from blobs: nothing that a job needs is only in memory, so a resumed round does not differ from
    others.
    """

    has_pictures: ClassVar[bool] = True
    """Whether the pictures themselves are available, not only their outcomes."""

    def __init__(self, blobs: Blobs, history: Iterable[events.Event] = ()) -> None:
        self.round = Round()
        self._blobs, self._examples = blobs, ExampleCache(blobs)
        self._lock = threading.Lock()
        for event in history:
            self.apply(event)

    def apply(self, event: events.Event) -> None:
        """Applies one event that was appended to the ledger."""
        with self._lock:
            self.round.apply(event)

    @property
    def finished_jobs(self) -> frozenset[JobId]:
        """The jobs that are finished."""
        with self._lock:
            return frozenset(JobId(job) for job in self.round.finished_jobs)

    def steps(self, job: JobId) -> dict[int, events.StepFinished]:
        """Returns the finished steps of a job."""
        with self._lock:
            return dict(self.round.steps.get(job, {}))

    @property
    def samples(self) -> Samples:
        """The task's pictures and labels. Raises StoreFault if they cannot be read."""
        if self.round.opening is None:
            raise StoreFault("the ledger is empty: no round was opened here")
        task = self.round.opening.task
        return Samples(get_array(self._blobs, task.pixels), get_array(self._blobs, task.labels), tuple(task.classes))

    def adversarial_examples(self, attack: str) -> AdversarialExamples | None:
        """Returns an attack's adversarial examples, in the order of the samples; None until its job is finished.

        All callers get the same arrays, which are read-only.
        """
        steps = self._steps_of_submission(Stage.PERTURB, attack)
        return self._read_examples((attack, ""), steps) if steps else None

    def cell_examples(self, cell: Cell) -> AdversarialExamples | None:
        """Returns the adversarial examples of a cell, made for its defence alone or for all; None until they are made.

        If the attack plays only some of the pictures, the others are clean. The arrays are read-only. None for a clean
        cell.
        """
        if cell.attack is None:
            return None
        steps = self.query_steps(cell)
        if not steps:
            return self.adversarial_examples(cell.attack)
        return self._read_examples((cell.attack, cell.defence), steps)

    def queried_cells(self) -> list[Cell]:
        """Returns the cells whose attack queried the defence, if their query job is finished."""
        with self._lock:
            return [cell for cell, job in self.round.query_jobs.items() if job in self.round.finished_jobs]

    def query_record(self, cell: Cell) -> QueryRecord | None:
        """Returns the record of the attack's queries to a cell's defence, None if there were none."""
        steps = self.query_steps(cell)
        if not steps:
            return None
        record = QueryRecord.empty(self._picture_count())
        for step in steps:
            index = self.read_array(step, "index")
            record.attacked[index] = True
            for name in ("queries", "fooled_at", "failures", "given_up"):
                getattr(record, name)[index] = self.read_array(step, name)
            record.seconds += step.seconds
            if (record.failures[index] == QueryFailure.NOT_PLAYED).any():
                replies = self.read_array(step, "replies")
                record.unplayed += int(replies[replies[:, 1] == NOT_PLAYED, 2].sum())
        return record

    def answers(self, defence: str, count: int) -> dict[Cell, Answers]:
        """Returns a defence's answers [n] per cell, `NOT_ASKED` for pictures without an answer."""
        cells: dict[Cell, Answers] = {}
        for step in self._steps_of_submission(Stage.CLASSIFY, defence):
            rows = get_array(self._blobs, step.blobs["rows"])
            for position, named in enumerate(step.cells):
                cell_rows = rows if len(step.cells) == 1 else rows[rows[:, 0] == position]
                cell = Cell(named.defence, named.attack)
                if cell not in cells:
                    cells[cell] = self._settled_answers(cell, count)
                cells[cell][cell_rows[:, 1]] = cell_rows[:, 2]
        return cells

    def _settled_answers(self, cell: Cell, count: int) -> Answers:
        """Returns the answers [n] of a cell before its candidates are judged."""
        asked = self.query_record(cell) if self.round.query_jobs else None
        return np.full(count, NOT_ASKED, np.int32) if asked is None else asked.settled_answers()

    def scores(self, defence: str, count: int) -> dict[Cell, Scores]:
        """Returns the scores [n, classes] that a defence gave, per cell, NaN where it gave none.

        Empty if the round's format keeps no scores.
        """
        cells: dict[Cell, Scores] = {}
        for step in self._steps_of_submission(Stage.CLASSIFY, defence):
            if "scores" not in step.blobs:
                continue
            rows, scores = (get_array(self._blobs, step.blobs[name]) for name in ("rows", "scores"))
            for position, named in enumerate(step.cells):
                nothing = np.full((count, scores.shape[1]), np.nan, np.float32)
                into = cells.setdefault(Cell(named.defence, named.attack), nothing)
                of_cell = rows[:, 0] == position
                into[rows[of_cell, 1]] = scores[of_cell]
        return cells

    def cells(self) -> Iterator[tuple[Cell, Answers]]:
        """Yields every cell of the round's submissions with its answers [n], one defence after another.

        It leaves out attacks that are not in this round: a job reused from an earlier round may have cells of such an
        attack.
        """
        roster, count = self.round.roster, len(self.samples)
        attacks = {None, *(attack.id for attack in roster.by_side(Side.ATTACK))}
        for defence in roster.by_side(Side.DEFENCE):
            yield from (
                (cell, answers) for cell, answers in self.answers(defence.id, count).items() if cell.attack in attacks
            )

    def finished_steps(self, stage: Stage, submission: str | None = None) -> list[list[events.StepFinished]]:
        """Returns the steps, in order, of each planned and finished job of a stage, of one submission or of all."""
        with self._lock:
            planned = self.round.planned_jobs if submission is None else self.round.planned_jobs_of.get(submission, ())
            jobs = [job.id for job in planned if job.stage is stage and job.id in self.round.finished_jobs]
            return [[step for _, step in sorted(self.round.steps.get(job, {}).items())] for job in jobs]

    def read_array(self, step: events.StepFinished, name: str) -> NDArray[Any]:
        """Returns an array of a step. Raises StoreFault if it cannot be read."""
        return get_array(self._blobs, step.blobs[name])

    def step_examples(self, step: events.StepFinished) -> AdversarialExamples:
        """Returns the candidates of one step of an attack, one per picture of its question."""
        return AdversarialExamples(
            pixels=self.read_array(step, "candidates"),
            forfeits=self.read_array(step, "forfeits"),
            violations=self.read_array(step, "violations"),
            distances=self.read_array(step, "distances"),
        )

    def _picture_count(self) -> int:
        if self.round.opening is None:
            raise StoreFault("the ledger is empty: no round was opened here")
        return self.round.opening.task.count

    def _read_examples(self, key: tuple[str, str], steps: list[events.StepFinished]) -> AdversarialExamples:
        """Returns the adversarial examples of these steps. `key` is the attack and the defence, "" for all defences."""
        return self._examples.read(key, steps, self.samples.pixels if key[1] else None)

    def query_steps(self, cell: Cell) -> list[events.StepFinished]:
        """Returns the steps of a cell's query job in which pictures were made; none until the job is finished."""
        with self._lock:
            job = self.round.query_jobs.get(cell, "")
            if job not in self.round.finished_jobs:
                return []
            steps = [step for _, step in sorted(self.round.steps.get(job, {}).items())]
        return [step for step in steps if "index" in step.blobs]

    def query_check(self, job: str) -> events.StepFinished | None:
        """Returns the step of a finished query job in which questions were asked again, None if there is none."""
        with self._lock:
            steps = self.round.steps.get(job, {}).values() if job in self.round.finished_jobs else ()
            return next((step for step in steps if "checked_rows" in step.blobs), None)

    def _steps_of_submission(self, stage: Stage, submission: str) -> list[events.StepFinished]:
        """Returns the steps of the planned, finished jobs of one submission."""
        return [step for steps in self.finished_steps(stage, submission) for step in steps]
