"""Derives the questions to a job's players from the record alone, step by step, so that a resumed job continues."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain import events
from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.outcomes import NOT_ASKED
from orchestrator.domain.plan import Cell, Job, Stage
from orchestrator.domain.samples import AdversarialExamples, Pixels
from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import Isolation
from orchestrator.errors import StoreFault
from orchestrator.execution import interactions
from orchestrator.execution.candidate_gate import question_mask
from orchestrator.execution.fault_budget import FaultBudget
from orchestrator.execution.interactions import AttackOutput, DefenceAnswers, QuestionPlan
from orchestrator.execution.player_pool import PlayerPool
from orchestrator.execution.round_context import RoundContext
from orchestrator.integrity import findings
from orchestrator.integrity.replay_session import DefencePlay, ReplaySession, SessionPurpose
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import Blobs, put_array

QUESTIONS_PER_STEP = 100
"""Questions to a defence between two entries in the ledger, in whole batches."""

FinishedSteps = dict[int, events.StepFinished]
"""The steps of the job that are on record, by their numbers. It grows while the job is played."""


_StepInProgress = tuple[int, DefenceAnswers, bool]
"""A step being asked: its number, what was said so far, and whether a fresh sandbox met its first question."""


@dataclass(frozen=True)
class StepResult:
    """What one step came to, before it is an event."""

    number: int
    blobs: dict[str, str]
    faults: list[events.FaultRecord] = field(default_factory=list)
    seconds: float = 0.0
    fault_seconds: float = 0.0
    cells: tuple[Cell, ...] = ()
    fresh: bool = True
    session: events.SessionRecord | None = None
    transcript: str = ""
    attack_seconds: float = 0.0
    last: bool = False
    """Whether the job ends with it, as far as that is known beforehand."""


class JobSteps:
    """The steps of one job, put to its players.

    Every sandbox that a step needed and the next does not is ended before the step is handed out: whatever the step
    cost is on record with it. `partial_step` is what another process played of the step that comes first.
    """

    def __init__(
        self,
        job: Job,
        context: RoundContext,
        view: RoundView,
        pool: PlayerPool,
        resumed_step: PartialStep | None = None,
    ) -> None:
        self._job, self._context, self._view, self._pool = job, context, view, pool
        self._resumed_step = resumed_step
        self._in_progress: _StepInProgress | None = None
        self._attack_in_progress: tuple[int, AttackOutput] | None = None
        self._pictures_by_cell: dict[Cell, Pixels] = {}
        self._seeds_by_cell: dict[Cell, list[int]] = {}

    def play_remaining(self, finished: FinishedSteps) -> Iterator[StepResult]:
        """Yields what is left of the job."""
        attack = self._context.roster[self._job.submission].side is Side.ATTACK
        match self._job.stage:
            case Stage.PERTURB:
                return self._perturb_steps(finished)
            case Stage.QUERY:
                raise ValueError("the steps of a query job are those of execution.query_steps")
            case Stage.CLASSIFY:
                return self._classify_steps(finished)
            case Stage.REPLAY:
                return self._replay_attack_steps(finished) if attack else self._replay_steps(finished)

    def partial_step(self) -> PartialStep | None:
        """Returns what was played of the step that ended with a fault of ours; None where nothing was.

        What others add: the sandboxes, and the latest seed.
        """
        if self._attack_in_progress is not None and self._attack_in_progress[1].faults:
            return PartialStep(step=self._attack_in_progress[0], completed=0, faults=self._attack_in_progress[1].faults)
        if self._in_progress is None or not (self._in_progress[1].completed or self._in_progress[1].faults):
            return None
        number, answers, fresh = self._in_progress
        blobs = answers.save(self._context.blobs)
        return PartialStep(
            step=number,
            completed=answers.completed,
            singles_left=answers.singles_left,
            sandbox_count=answers.sandbox_count,
            failed_starts=self._pool.budget.consecutive_failed_starts,
            blobs=blobs,
            faults=answers.faults,
            seconds=answers.seconds,
            fault_seconds=answers.fault_seconds,
            fresh=fresh,
        )

    def _ask_defence(
        self, number: int, questions: QuestionPlan, pictures: Sequence[Pixels]
    ) -> tuple[DefenceAnswers, bool]:
        """Asks a defence what a step asks; returns what it said, and whether a fresh sandbox met the first question."""
        resumed, fresh = self._resumed_step, not self._pool.has_active_player
        kept = self._context.keep_scores and self._job.stage is Stage.CLASSIFY
        answers = DefenceAnswers.empty(len(pictures), len(self._context.task.classes) if kept else 0)
        if resumed is not None and resumed.step == number and resumed.blobs:
            answers, fresh = DefenceAnswers.resume(resumed, self._context.blobs), resumed.fresh
        self._in_progress = (number, answers, fresh)
        interactions.ask_defence(self._pool, questions, pictures, self._context.clock, answers)
        self._in_progress = None
        return answers, fresh

    def _perturb_steps(self, finished: FinishedSteps) -> Iterator[StepResult]:
        starts = range(0, len(self._context.samples), self._context.limits.perturb_batch)
        for number, start in enumerate(starts):
            if number not in finished:
                last = start == starts[-1]
                yield replace(self._perturb_step(number, start, retire=last), last=last)

    def _perturb_step(self, number: int, start: int, *, retire: bool) -> StepResult:
        context, samples = self._context, self._context.samples
        pixels = samples.pixels[start : start + context.limits.perturb_batch]
        labels = samples.labels[start : start + len(pixels)] if context.labels else None
        fresh, gate = not self._pool.has_active_player, context.gate()
        output = interactions.AttackOutput(gate.missing_all(pixels))
        if self._resumed_step is not None and self._resumed_step.step == number:
            output.faults, output.restarted = list(self._resumed_step.faults), True
        self._attack_in_progress = (number, output)
        interactions.ask_attack(self._pool, gate, context.limits, pixels, labels, context.clock, output)
        self._attack_in_progress = None
        if retire:
            output.faults += self._pool.retire_player()
        blobs = save_examples(context.blobs, start, output.examples)
        return StepResult(number, blobs, output.faults, output.seconds, fresh=fresh or output.restarted)

    def _classify_steps(self, finished: FinishedSteps) -> Iterator[StepResult]:
        context, cells = self._context, self._job.cells
        batch = context.limits.classify_batch
        question_rows = self._questions()
        fresh = context.isolation is Isolation.PICTURE
        size = max(1, QUESTIONS_PER_STEP // batch) * batch
        starts = range(0, max(1, len(question_rows)), size)
        for number, start in enumerate(starts):
            if number in finished:
                continue
            part = question_rows[start : start + size]
            pictures = [self._pictures(cells[cell])[picture] for cell, picture in part]
            seeds = [self._seeds(cells[cell])[picture] for cell, picture in part] if context.allows_chance else None
            questions = QuestionPlan(context.limits, batch, fresh_sandbox_each=fresh, scored=True, seeds=seeds)
            answers, fresh_start = self._ask_defence(number, questions, pictures)
            if start == starts[-1]:
                answers.faults += self._pool.retire_player()
            rows = np.column_stack([part, answers.answers, answers.sandbox]).astype(np.int32)
            blobs = {"rows": put_array(context.blobs, rows)}
            if context.keep_scores:
                blobs["scores"] = put_array(context.blobs, answers.scores)
            last = start == starts[-1]
            yield StepResult(
                number,
                blobs,
                answers.faults,
                answers.seconds,
                answers.fault_seconds,
                cells,
                fresh=fresh_start,
                last=last,
            )

    def _replay_steps(self, finished: FinishedSteps) -> Iterator[StepResult]:
        """Plays the sessions of a defence's examination, each in a fresh sandbox, for as long as it wants more."""
        play, examination = findings.prepare_check(self._view, self._job, self._context.check_parameters)
        try:
            session = next(examination)
            for number in itertools.count():
                if number not in finished:
                    self._pool.repeat_seed(_session_seed(finished, session))
                    yield self._play_session(number, play, session)
                session = examination.send(findings.session_answers(self._view, finished[number], session))
        except StopIteration:
            return

    def _play_session(self, number: int, play: DefencePlay, session: ReplaySession) -> StepResult:
        context = self._context
        pictures = [self._pictures(play.cells[cell])[picture] for cell, picture in session.questions]
        questions = QuestionPlan(context.limits, session.batch, session.pauses, context.cancelled.wait)
        # Who knows a copy from its image, and stalls in it, answers here: that is what the control is for.
        self._pool.runs_from_copy = session.purpose is not SessionPurpose.TRIGGER_CONTROL
        if session.is_diagnostic:
            resumed = self._resumed_step
            before = len(resumed.faults) if resumed is not None and resumed.step == number else 0
            self._pool.budget = FaultBudget.for_determinism_check(context.limits, before)
        answers, _ = self._ask_defence(number, questions, pictures)
        answers.faults += self._pool.retire_player()
        arrays: dict[str, NDArray[Any]] = {
            "rows": np.column_stack([session.questions, answers.answers]).astype(np.int32),
            "margins": answers.margins,
            "at": answers.answer_times,
            "refused": answers.refused,
            "late": answers.late,
        }
        layout = events.SessionRecord(
            purpose=session.purpose.value, batch=session.batch, pauses=dict(session.pauses), seed=self._pool.latest_seed
        )
        blobs = {name: put_array(context.blobs, array) for name, array in arrays.items()}
        return StepResult(
            number, blobs, answers.faults, answers.seconds, answers.fault_seconds, play.cells, session=layout
        )

    def _replay_attack_steps(self, finished: FinishedSteps) -> Iterator[StepResult]:
        """Asks an attack its first questions again, from the same seed; where other pictures come, once more."""
        context = self._context
        starts = range(0, len(context.samples), context.limits.perturb_batch)
        again = starts[: ceil(context.replay.attacks * len(starts))]
        for number, start in enumerate([*again, *again]):
            if number == len(again) and not findings.attack_differs(self._view, self._job.submission, finished):
                return
            if number not in finished:
                yield self._perturb_step(number, start, retire=start == again[-1])

    def _questions(self) -> NDArray[np.int32]:
        """Returns the job's questions [k, 2] (cell position, picture) in their secret order."""
        count = len(self._context.samples)
        rows = []
        for position, cell in enumerate(self._job.cells):
            pictures = np.arange(count)
            if cell.attack is not None:
                pictures = np.flatnonzero(
                    self._unsettled(cell) & question_mask(self._examples_of(cell).forfeits, self._context.on_missing)
                )
            rows += [(position, int(picture)) for picture in pictures]
        permutation = np.random.default_rng(self._context.secret_seed("order", *self._job.seed_parts)).permutation(
            len(rows)
        )
        return np.array(rows, np.int32).reshape(-1, 2)[permutation]

    def _pictures(self, cell: Cell) -> Pixels:
        """Returns the pictures that a cell's defence is shown [n, c, h, w]."""
        if cell not in self._pictures_by_cell:
            clean = self._context.samples.pixels
            self._pictures_by_cell[cell] = clean if cell.attack is None else self._examples_of(cell).pixels
        return self._pictures_by_cell[cell]

    def _seeds(self, cell: Cell) -> list[int]:
        """Returns the seed of each of a cell's pictures (U13); none where a defence may use no chance."""
        if cell not in self._seeds_by_cell:
            self._seeds_by_cell[cell] = self._context.seeds_for(cell.defence, self._pictures(cell)) or []
        return self._seeds_by_cell[cell]

    def _examples_of(self, cell: Cell) -> AdversarialExamples:
        examples = self._view.cell_examples(cell)
        if examples is None:
            raise StoreFault(f"the pictures of {cell.attack!r} are not in the record")
        return examples

    def _unsettled(self, cell: Cell) -> NDArray[np.bool_]:
        """Returns which pictures of a cell [n] are judged by the defence's answer, as all are that nobody queried."""
        asked = self._view.query_record(cell)
        if asked is None:
            return np.ones(len(self._context.samples), np.bool_)
        unsettled: NDArray[np.bool_] = asked.settled_answers() == NOT_ASKED
        return unsettled


def save_examples(blobs: Blobs, start: int, examples: AdversarialExamples) -> dict[str, str]:
    """Keeps what an attack made of the pictures from number `start` on; returns its arrays' digests by name."""
    return {
        "index": put_array(blobs, np.arange(start, start + len(examples.pixels), dtype=np.int32)),
        "candidates": put_array(blobs, examples.pixels),
        "forfeits": put_array(blobs, examples.forfeits),
        "violations": put_array(blobs, examples.violations),
        "distances": put_array(blobs, examples.distances),
    }


def _session_seed(finished: FinishedSteps, session: ReplaySession) -> int | None:
    """Returns the seed that a session's sandbox is to be told: that of an earlier session, or None for a fresh one."""
    earlier = None if session.same_seed_as is None else finished[session.same_seed_as].session
    return None if earlier is None else earlier.seed
