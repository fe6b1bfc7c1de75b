"""What the players of a job are asked, step by step, from the record alone: a resumed job goes on where it stopped."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain import events
from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.plan import Cell, Job, Stage
from orchestrator.domain.samples import AdversarialExamples, Pixels
from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import Isolation
from orchestrator.errors import StoreFault
from orchestrator.execution import interactions
from orchestrator.execution.fault_budget import FaultBudget
from orchestrator.execution.gate import Gate, question_mask
from orchestrator.execution.interactions import AttackOutput, DefenceAnswers, QuestionPlan
from orchestrator.execution.player_pool import PlayerPool
from orchestrator.execution.round_context import RoundContext
from orchestrator.integrity import findings
from orchestrator.integrity.replay_session import DefencePlay, ReplaySession
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.base import put_array

QUESTIONS_PER_STEP = 100
"""Questions to a defence between two entries in the ledger, in whole batches."""

FinishedSteps = dict[int, events.StepFinished]
"""The steps of the job that are on record, by their numbers. It grows while the job is played."""


class SandboxSeeds(Protocol):
    """The seeds that a defence's sandboxes are told: see arena.entrance."""

    @property
    def latest(self) -> int | None:
        """What the latest sandbox of the step was told, None where there was none."""

    def repeat(self, seed: int | None) -> None:
        """Tells the sandboxes to come this seed; with None each is told one of its own again."""


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
    last: bool = False
    """Whether the job ends with it, as far as that is known beforehand."""


class JobSteps:
    """One job, one casting.

    Every sandbox that a step needed and the next does not is ended before the step is handed out: whatever the step
    cost is on record with it. `half` is what another process played of the step that comes first.
    """

    def __init__(
        self, job: Job, setting: RoundContext, record: RoundView, casting: PlayerPool, half: PartialStep | None = None
    ) -> None:
        self._job, self._setting, self._record, self._casting = job, setting, record, casting
        self._half = half
        self._underway: _StepInProgress | None = None
        self._at_attack: tuple[int, AttackOutput] | None = None
        self._gate = Gate(setting.task.budget, setting.on_missing, setting.on_violation)
        self._shown: dict[Cell, Pixels] = {}

    def steps(self, finished: FinishedSteps, seeds: SandboxSeeds) -> Iterator[StepResult]:
        """Yields what is left of the job."""
        attack = self._setting.roster[self._job.submission].side is Side.ATTACK
        match self._job.stage:
            case Stage.PERTURB:
                return self._perturb(finished)
            case Stage.CLASSIFY:
                return self._classify(finished)
            case Stage.REPLAY:
                return self._replay_attack(finished) if attack else self._replay(finished, seeds)

    def half(self) -> PartialStep | None:
        """Returns what was played of the step that ended with a fault of ours; None where nothing was.

        What others add: the sandboxes, and the latest seed.
        """
        if self._at_attack is not None and self._at_attack[1].faults:
            return PartialStep(step=self._at_attack[0], asked=0, faults=self._at_attack[1].faults)
        if self._underway is None or not (self._underway[1].asked or self._underway[1].faults):
            return None
        number, said, began = self._underway
        blobs = said.keep(self._setting.blobs)
        return PartialStep(
            step=number,
            asked=said.asked,
            alone=said.alone,
            opened=said.opened,
            failed_starts=self._casting.budget.starts_failed,
            blobs=blobs,
            faults=said.faults,
            seconds=said.seconds,
            fault_seconds=said.fault_seconds,
            fresh=began,
        )

    def _ask(self, number: int, questions: QuestionPlan, pictures: Sequence[Pixels]) -> tuple[DefenceAnswers, bool]:
        """Asks a defence what a step asks; returns what it said, and whether a fresh sandbox met the first question."""
        half, fresh = self._half, not self._casting.at_work
        said = DefenceAnswers.nothing(len(pictures))
        if half is not None and half.step == number and half.blobs:
            said, fresh = DefenceAnswers.taken_up(half, self._setting.blobs), half.fresh
        self._underway = (number, said, fresh)
        interactions.ask_defence(self._casting, questions, pictures, self._setting.clock, said)
        self._underway = None
        return said, fresh

    def _perturb(self, finished: FinishedSteps) -> Iterator[StepResult]:
        starts = range(0, len(self._setting.samples), self._setting.limits.perturb_batch)
        for number, start in enumerate(starts):
            if number not in finished:
                last = start == starts[-1]
                yield replace(self._perturbed(number, start, retire=last), last=last)

    def _perturbed(self, number: int, start: int, *, retire: bool) -> StepResult:
        setting, samples = self._setting, self._setting.samples
        pixels = samples.pixels[start : start + setting.limits.perturb_batch]
        labels = samples.labels[start : start + len(pixels)] if setting.labels else None
        fresh = not self._casting.at_work
        played = interactions.AttackOutput(self._gate.nothing(pixels))
        if self._half is not None and self._half.step == number:
            played.faults, played.renewed = list(self._half.faults), True
        self._at_attack = (number, played)
        interactions.ask_attack(self._casting, self._gate, setting.limits, pixels, labels, setting.clock, played)
        self._at_attack = None
        if retire:
            played.faults += self._casting.retire()
        made = played.candidates
        blobs = {
            "index": put_array(setting.blobs, np.arange(start, start + len(pixels), dtype=np.int32)),
            "candidates": put_array(setting.blobs, made.pixels),
            "forfeits": put_array(setting.blobs, made.forfeits),
            "violations": put_array(setting.blobs, made.violations),
            "distances": put_array(setting.blobs, made.distances),
        }
        return StepResult(number, blobs, played.faults, played.seconds, fresh=fresh or played.renewed)

    def _classify(self, finished: FinishedSteps) -> Iterator[StepResult]:
        setting, cells = self._setting, self._job.cells
        batch = setting.limits.classify_batch
        wanted = self._wanted()
        fresh = setting.isolation is Isolation.PICTURE
        size = max(1, QUESTIONS_PER_STEP // batch) * batch
        starts = range(0, max(1, len(wanted)), size)
        for number, start in enumerate(starts):
            if number in finished:
                continue
            part = wanted[start : start + size]
            pictures = [self._pictures(cells[cell])[picture] for cell, picture in part]
            questions = QuestionPlan(setting.limits, batch, fresh=fresh, scored=True)
            said, began = self._ask(number, questions, pictures)
            if start == starts[-1]:
                said.faults += self._casting.retire()
            rows = np.column_stack([part, said.answers, said.sandbox]).astype(np.int32)
            blobs = {"rows": put_array(setting.blobs, rows)}
            last = start == starts[-1]
            yield StepResult(
                number, blobs, said.faults, said.seconds, said.fault_seconds, cells, fresh=began, last=last
            )

    def _replay(self, finished: FinishedSteps, seeds: SandboxSeeds) -> Iterator[StepResult]:
        """Plays the sessions of a defence's examination, each in a fresh sandbox, for as long as it wants more."""
        play, examination = findings.prepare_check(self._record, self._job, self._setting.examined)
        try:
            session = next(examination)
            for number in itertools.count():
                if number not in finished:
                    seeds.repeat(_session_seed(finished, session))
                    yield self._session(number, play, session, seeds)
                session = examination.send(findings.session_answers(self._record, finished[number], session))
        except StopIteration:
            return

    def _session(self, number: int, play: DefencePlay, session: ReplaySession, seeds: SandboxSeeds) -> StepResult:
        setting = self._setting
        pictures = [self._pictures(play.cells[cell])[picture] for cell, picture in session.questions]
        questions = QuestionPlan(setting.limits, session.batch, session.pauses, setting.cancelled.wait)
        if session.looks_into:
            half = self._half
            before = len(half.faults) if half is not None and half.step == number else 0
            self._casting.budget = FaultBudget.of_check(setting.limits, before)
        said, _ = self._ask(number, questions, pictures)
        said.faults += self._casting.retire()
        arrays: dict[str, NDArray[Any]] = {
            "rows": np.column_stack([session.questions, said.answers]).astype(np.int32),
            "margins": said.margins,
            "at": said.at,
            "refused": said.refused,
            "late": said.late,
        }
        layout = events.SessionRecord(
            purpose=session.purpose.value, batch=session.batch, pauses=dict(session.pauses), seed=seeds.latest
        )
        blobs = {name: put_array(setting.blobs, array) for name, array in arrays.items()}
        return StepResult(number, blobs, said.faults, said.seconds, said.fault_seconds, play.cells, session=layout)

    def _replay_attack(self, finished: FinishedSteps) -> Iterator[StepResult]:
        """Asks an attack its first questions again, from the same seed; where other pictures come, once more."""
        setting = self._setting
        starts = range(0, len(setting.samples), setting.limits.perturb_batch)
        again = starts[: ceil(setting.replay.attacks * len(starts))]
        for number, start in enumerate([*again, *again]):
            if number == len(again) and not findings.attack_differs(self._record, self._job.submission, finished):
                return
            if number not in finished:
                yield self._perturbed(number, start, retire=start == again[-1])

    def _wanted(self) -> NDArray[np.int32]:
        """Returns the job's questions [k, 2] (cell position, picture) in their secret order."""
        count = len(self._setting.samples)
        rows = []
        for position, cell in enumerate(self._job.cells):
            wanted = np.arange(count)
            if cell.attack is not None:
                wanted = np.flatnonzero(question_mask(self._made(cell.attack).forfeits, self._setting.on_missing))
            rows += [(position, int(picture)) for picture in wanted]
        order = np.random.default_rng(self._setting.secret_seed("order", *self._job.place)).permutation(len(rows))
        return np.array(rows, np.int32).reshape(-1, 2)[order]

    def _pictures(self, cell: Cell) -> Pixels:
        """Returns the pictures that a cell's defence is shown [n, c, h, w]."""
        if cell not in self._shown:
            clean = self._setting.samples.pixels
            self._shown[cell] = clean if cell.attack is None else self._made(cell.attack).pixels
        return self._shown[cell]

    def _made(self, attack: str) -> AdversarialExamples:
        made = self._record.candidates(attack)
        if made is None:
            raise StoreFault(f"the pictures of {attack!r} are not in the record")
        return made


def _session_seed(finished: FinishedSteps, session: ReplaySession) -> int | None:
    """Returns the seed that a session's sandbox is to be told: that of an earlier session, or None for a fresh one."""
    earlier = None if session.seed_of is None else finished[session.seed_of].session
    return None if earlier is None else earlier.seed
