"""Derives the questions to a job's players, step by step, from the ledger alone, so that a resumed job continues."""

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
from orchestrator.execution import player_questions
from orchestrator.execution.attack_output_gate import question_mask
from orchestrator.execution.fault_budget import FaultBudget
from orchestrator.execution.player_pool import PlayerPool
from orchestrator.execution.player_questions import AttackOutput, DefenceAnswers, QuestionPlan
from orchestrator.execution.round_context import RoundContext
from orchestrator.executors.base import FreeSlot, keep_slot
from orchestrator.integrity import findings
from orchestrator.integrity.replay_session import DefencePlay, ReplaySession, SessionPurpose
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import Blobs, put_array

QUESTIONS_PER_STEP = 100
"""Questions to a defence between two entries in the ledger, in whole batches."""
MAX_SESSIONS_AHEAD = 2
"""For how many planned sessions of a determinism check sandboxes may start before their turn."""

FinishedSteps = dict[int, events.StepFinished]
"""The recorded steps of the job by number. It grows while the job is played."""


_StepInProgress = tuple[int, DefenceAnswers, bool]
"""A step in progress: its number, the answers so far, and whether its first question went to a fresh sandbox."""


@dataclass(frozen=True)
class StepResult:
    """The result of one step, from which its StepFinished event is made."""

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
    """Whether it is known to be the last step of the job."""


class JobSteps:
    """Plays the steps of one job with its players.

    A sandbox that the next step does not need is ended before the step is yielded, so that the step's event records
    everything that it cost. `resumed_step` is what another process played of the first remaining step. `free_slot` is
    called when the last question of a job that plays was answered; if the sandbox's end is an infrastructure fault, the
    last step is played again all the same.
    """

    def __init__(
        self,
        job: Job,
        context: RoundContext,
        view: RoundView,
        pool: PlayerPool,
        resumed_step: PartialStep | None = None,
        free_slot: FreeSlot = keep_slot,
    ) -> None:
        self._free_slot = free_slot
        self._job, self._context, self._view, self._pool = job, context, view, pool
        self._resumed_step = resumed_step
        self._in_progress: _StepInProgress | None = None
        self._attack_in_progress: tuple[int, AttackOutput] | None = None
        self._pictures_by_cell: dict[Cell, Pixels] = {}
        self._seeds_by_cell: dict[Cell, list[int]] = {}

    def play_remaining(self, finished: FinishedSteps) -> Iterator[StepResult]:
        """Yields the results of the remaining steps."""
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
        """Returns the played part of the step that an infrastructure fault interrupted, None if nothing was played.

        The caller adds the sandboxes and the latest seed.
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
        """Asks a step's questions; returns the answers, and whether the first question went to a fresh sandbox."""
        resumed, fresh = self._resumed_step, not self._pool.has_active_player
        kept = self._context.keep_scores and self._job.stage is Stage.CLASSIFY
        answers = DefenceAnswers.empty(len(pictures), len(self._context.task.classes) if kept else 0)
        if resumed is not None and resumed.step == number and resumed.blobs:
            answers, fresh = DefenceAnswers.resume(resumed, self._context.blobs), resumed.fresh
        self._in_progress = (number, answers, fresh)
        player_questions.ask_defence(self._pool, questions, pictures, self._context.clock, answers)
        self._in_progress = None
        return answers, fresh

    def _perturb_steps(self, finished: FinishedSteps) -> Iterator[StepResult]:
        starts = range(0, len(self._context.samples), self._context.limits.perturb_batch)
        for number, start in enumerate(starts):
            if number not in finished:
                last = start == starts[-1]
                yield replace(self._perturb_step(number, start, retire=last, last=last), last=last)

    def _perturb_step(self, number: int, start: int, *, retire: bool, last: bool = False) -> StepResult:
        context, samples = self._context, self._context.samples
        pixels = samples.pixels[start : start + context.limits.perturb_batch]
        labels = samples.labels[start : start + len(pixels)] if context.labels else None
        fresh, gate = not self._pool.has_active_player, context.gate()
        output = player_questions.AttackOutput(gate.missing_all(pixels))
        if self._resumed_step is not None and self._resumed_step.step == number:
            output.faults, output.restarted = list(self._resumed_step.faults), True
        self._attack_in_progress = (number, output)
        player_questions.ask_attack(self._pool, gate, context.limits, pixels, labels, context.clock, output)
        self._attack_in_progress = None
        if last:
            self._free_slot()
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
                self._free_slot()
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
        """Plays the sessions of a defence's determinism check, each in a fresh sandbox, until the check is decided."""
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
        # A defence that recognises the copy and stalls in it answers from its own image: this control shows that.
        self._pool.runs_from_copy = session.purpose is not SessionPurpose.TRIGGER_CONTROL
        if session.is_diagnostic:
            self._pool.discard_prestarted()  # what gave up in planned sessions left theirs
            resumed = self._resumed_step
            before = len(resumed.faults) if resumed is not None and resumed.step == number else 0
            self._pool.budget = FaultBudget.for_determinism_check(context.limits, before)
        if session.planned_after and not self._pool.budget.exhaustion_reason:
            self._pool.prestart(1 + min(session.planned_after, MAX_SESSIONS_AHEAD))
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
        """Asks an attack its first questions again with the same seed, and once more if its pictures differ."""
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
        """Returns the pictures [n, c, h, w] that a cell's defence is shown."""
        if cell not in self._pictures_by_cell:
            clean = self._context.samples.pixels
            self._pictures_by_cell[cell] = clean if cell.attack is None else self._examples_of(cell).pixels
        return self._pictures_by_cell[cell]

    def _seeds(self, cell: Cell) -> list[int]:
        """Returns the seed of each picture of a cell (U13); empty if a defence may not use randomness."""
        if cell not in self._seeds_by_cell:
            self._seeds_by_cell[cell] = self._context.seeds_for(cell.defence, self._pictures(cell)) or []
        return self._seeds_by_cell[cell]

    def _examples_of(self, cell: Cell) -> AdversarialExamples:
        examples = self._view.cell_examples(cell)
        if examples is None:
            raise StoreFault(f"the pictures of {cell.attack!r} are not in the record")
        return examples

    def _unsettled(self, cell: Cell) -> NDArray[np.bool_]:
        """Returns a mask [n] of a cell's pictures whose outcome the queries left open: all of them without queries."""
        asked = self._view.query_record(cell)
        if asked is None:
            return np.ones(len(self._context.samples), np.bool_)
        unsettled: NDArray[np.bool_] = asked.settled_answers() == NOT_ASKED
        return unsettled


def save_examples(blobs: Blobs, start: int, examples: AdversarialExamples) -> dict[str, str]:
    """Stores an attack's examples of the pictures from number `start` on; returns the arrays' digests by name."""
    return {
        "index": put_array(blobs, np.arange(start, start + len(examples.pixels), dtype=np.int32)),
        "candidates": put_array(blobs, examples.pixels),
        "forfeits": put_array(blobs, examples.forfeits),
        "violations": put_array(blobs, examples.violations),
        "distances": put_array(blobs, examples.distances),
    }


def _session_seed(finished: FinishedSteps, session: ReplaySession) -> int | None:
    """Returns the seed that a session's sandbox shares with an earlier session, or None for a fresh seed."""
    earlier = None if session.same_seed_as is None else finished[session.same_seed_as].session
    return None if earlier is None else earlier.seed
