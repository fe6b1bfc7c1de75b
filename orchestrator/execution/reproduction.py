"""A finding played again, for whoever doubts it: the same questions in fresh sandboxes. Nothing goes on record.

The sandboxes run from what those of the round's replays did: a copy of the image's files, where the backend makes one.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain import events
from orchestrator.domain.findings import Finding, FindingKind
from orchestrator.domain.ids import JobId
from orchestrator.domain.outcomes import NOT_ASKED, Forfeit
from orchestrator.domain.plan import Cell
from orchestrator.domain.samples import AdversarialExamples, Pixels
from orchestrator.domain.submissions import Side
from orchestrator.errors import StoreFault
from orchestrator.execution import interactions
from orchestrator.execution.fault_budget import FaultBudget
from orchestrator.execution.fresh_copy import FreshCopy
from orchestrator.execution.gate import Gate
from orchestrator.execution.player_pool import PlayerPool
from orchestrator.execution.player_starter import PlayerStarter
from orchestrator.execution.round_context import RoundContext
from orchestrator.integrity import findings
from orchestrator.integrity.power import ALPHA
from orchestrator.integrity.rates import DisagreementRate
from orchestrator.integrity.replay_session import is_decision
from orchestrator.ledger.read_model import RoundView

_AGAINST_PLAY = frozenset({FindingKind.ENVIRONMENT, FindingKind.CLOCK, FindingKind.INCONSISTENT})
"""Kinds that may show between play and replay only."""
REPEATS = 2
"""So often an attack is asked the same again, as for its finding."""


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """One question: what it was answered in play, when the finding was made, and now.

    `margin` is what the defence claims now, None without scores. `refused`: it ended, broke the protocol or let the
    deadline pass instead.
    """

    attack: str | None
    picture: int
    pause: float
    played: int
    then: int
    now: int
    margin: float | None
    refused: bool


@dataclass(frozen=True, slots=True)
class ReproducedSession:
    """One recorded session in a fresh sandbox. `step` is its number on record, `seed` what the sandbox is told now."""

    step: int
    purpose: str
    batch: int
    seed: int | None
    lines: tuple[QuestionRow, ...]


@dataclass(frozen=True, slots=True)
class SeenDecision:
    """A decision and where it was given: at a place of a sitting, or in play (step None)."""

    answer: int
    step: int | None = None
    place: int = 0


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """One question with more than one decision: each of them once, where it was given first."""

    attack: str | None
    picture: int
    given: tuple[SeenDecision, ...]


@dataclass(frozen=True, slots=True)
class ChangedExample:
    """One picture of an attack: how many values are others than in play each time, and between the times."""

    picture: int
    turns: tuple[int, ...]
    between: int
    largest: int


@dataclass(frozen=True)
class Reproduction:
    """What came of it, and whether the finding shows again.

    `recorded_seeds` says whether sandboxes were told the seeds on record, else fresh ones: two sessions that shared a
    seed on record share one again. `fresh_copy` is the digest of the copy of the image's files that they
    ran from; empty where it was the image itself. Of a proof, `shown` of `pairs` of control and sequence show it now.
    `refused` counts the questions that were answered in play and not now: it ended, broke the protocol or let the
    deadline pass.
    """

    reproduced: bool
    recorded_seeds: bool = False
    fresh_copy: str = ""
    shown: int = 0
    pairs: int = 0
    sittings: tuple[ReproducedSession, ...] = ()
    contradictions: tuple[Inconsistency, ...] = ()
    refused: int = 0
    compared: int = 0
    redrawn: tuple[ChangedExample, ...] = ()
    faults: tuple[events.FaultRecord, ...] = ()


class FindingReproducer:
    """Plays one finding again.

    Args:
        setting: of the round, its secret drawn anew: seeds that are not on record come from it.
        record: the round's.
        finding: what to show again.
        device: the GPU to play on, if any.
        recorded_seeds: whether a defence's sandboxes are told the seeds on record, instead of fresh ones.
    """

    def __init__(
        self,
        setting: RoundContext,
        record: RoundView,
        finding: Finding,
        device: str | None,
        *,
        recorded_seeds: bool = False,
    ) -> None:
        self._setting, self._record, self._finding, self._device = setting, record, finding, device
        self._recorded_seeds = recorded_seeds
        self._copy = FreshCopy.of(setting, finding.submission)
        self._seeds: dict[int, int] = {}
        self._faults: list[events.FaultRecord] = []
        self._made: dict[str, AdversarialExamples] = {}

    def play(self) -> Reproduction:
        """Returns what comes of it.

        Raises:
            StoreFault: what was asked is not on record.
            InfrastructureFault: a sandbox could not be started, or was lost.
        """
        attack = self._setting.roster[self._finding.submission].side is Side.ATTACK
        try:
            encore = self._attack() if attack else self._defence()
        finally:
            copied = self._copy.discard() if self._copy else ""
        return replace(encore, fresh_copy=copied)

    def _defence(self) -> Reproduction:
        finding, on_record = self._finding, self._record.steps(JobId(self._finding.job))
        if missing := [step for step in finding.steps if step not in on_record]:
            raise StoreFault(f"steps {missing} of replay {finding.job} are not on record")
        answers = self._record.answers(finding.submission, len(self._setting.samples))
        sittings = tuple(self._sitting(on_record[step], answers) for step in finding.steps)
        found = find_inconsistencies(sittings, played=finding.kind in _AGAINST_PLAY)
        lines = [line for sitting in sittings for line in sitting.lines]
        pairs = list(zip(sittings[::2], sittings[1::2], strict=False)) if finding.alone is not None else []
        shown = sum(bool(find_inconsistencies(pair, played=False)) for pair in pairs)
        if finding.kind is FindingKind.REFUSED:
            failing = sum(any(line.refused for line in sitting.lines) for sitting in sittings)
            reproduced = 2 * failing > len(sittings)
        elif pairs:
            reproduced = shown == len(pairs)
        else:
            reproduced = exceeds_noise(sittings, len(found), self._setting.replay.noise)
        return Reproduction(
            reproduced=reproduced,
            recorded_seeds=self._recorded_seeds,
            shown=shown,
            pairs=len(pairs),
            sittings=sittings,
            contradictions=found,
            refused=sum(line.refused and is_decision(line.played) for line in lines),
            compared=sum(is_decision(line.now) for line in lines),
            faults=tuple(self._faults),
        )

    def _sitting(self, step: events.StepFinished, answers: Mapping[Cell, NDArray[np.int32]]) -> ReproducedSession:
        if step.session is None:
            raise StoreFault(f"step {step.step} of replay {step.job} does not say how it was asked")
        setting, session = self._setting, step.session
        cells = [Cell(cell.defence, cell.attack) for cell in step.cells]
        rows = self._record.array(step, "rows")
        pictures = [self._picture(cells[cell], picture) for cell, picture in rows[:, :2].tolist()]
        questions = interactions.QuestionPlan(setting.limits, session.batch, session.pauses, setting.cancelled.wait)
        seed = self._seed(session.seed, step.step)
        casting = self._cast(step, seed)
        try:
            said = interactions.DefenceAnswers.nothing(len(pictures))
            interactions.ask_defence(casting, questions, pictures, setting.clock, said)
            said.faults += casting.retire()
        finally:
            casting.close()
        self._faults += said.faults
        lines = []
        for place, (cell, picture, then) in enumerate(rows[:, :3].tolist()):
            margin = float(said.margins[place])
            lines.append(
                QuestionRow(
                    attack=cells[cell].attack,
                    picture=picture,
                    pause=session.pauses.get(place, 0.0),
                    played=int(answers[cells[cell]][picture]) if cells[cell] in answers else NOT_ASKED,
                    then=then,
                    now=int(said.answers[place]),
                    margin=None if np.isnan(margin) else margin,
                    refused=bool(said.refused[place] or said.late[place]),
                )
            )
        return ReproducedSession(step.step, session.purpose, session.batch, seed, tuple(lines))

    def _seed(self, recorded: int | None, step: int) -> int:
        """Returns what the sandboxes of a session are told: what they were, or one fresh number for each recorded."""
        fresh = self._setting.secret_seed(self._finding.job, "seed", str(step))
        if recorded is None:
            return fresh
        return recorded if self._recorded_seeds else self._seeds.setdefault(recorded, fresh)

    def _attack(self) -> Reproduction:
        """Asks an attack the same twice more: it is reproduced where other pictures than in play come both times.

        As far as one sandbox went each time, as for the finding: a fresh one begins its chance anew.
        """
        batches = findings.repeated_steps(self._record, self._finding.submission, JobId(self._finding.job))
        index = [self._record.array(play, "index") for play, _, _ in batches]
        if not index:
            raise StoreFault(f"nothing of replay {self._finding.job} is on record")
        played = [self._record.made(play) for play, _, _ in batches]
        turns = [self._turn(batches[0][0], index, turn) for turn in range(REPEATS)]
        redrawn: list[ChangedExample] = []
        for pictures, *given in zip(index, played, *turns, strict=False):
            for place, picture in enumerate(pictures.tolist()):
                if any(made.forfeits[place] == Forfeit.MISSING for made in given):
                    continue
                first, *others = (made.pixels[place].astype(np.int16) for made in given)
                gaps = [np.abs(other - first) for other in others]
                between = int((others[0] != others[1]).sum())
                differ = tuple(int((gap > 0).sum()) for gap in gaps)
                redrawn.append(ChangedExample(picture, differ, between, max(int(gap.max()) for gap in gaps)))
        return Reproduction(
            reproduced=all(any(picture.turns[turn] for picture in redrawn) for turn in range(REPEATS)),
            compared=len(redrawn),
            redrawn=tuple(redrawn),
            faults=tuple(self._faults),
        )

    def _turn(self, step: events.StepFinished, index: list[NDArray[np.int32]], turn: int) -> list[AdversarialExamples]:
        """Returns an attack's candidates for batches of pictures, up to its first fault: from one fresh sandbox."""
        setting, samples = self._setting, self._setting.samples
        gate = Gate(setting.task.budget, setting.on_missing, setting.on_violation)
        casting = self._cast(step, None, turn)
        made = []
        try:
            for pictures in index:
                labels = samples.labels[pictures] if setting.labels else None
                pixels = samples.pixels[pictures]
                played = interactions.AttackOutput(gate.nothing(pixels))
                interactions.ask_attack(casting, gate, setting.limits, pixels, labels, setting.clock, played)
                self._faults += played.faults
                made.append(played.candidates)
                if played.faults:
                    break
            self._faults += casting.retire()
        finally:
            casting.close()
        return made

    def _cast(self, step: events.StepFinished, seed: int | None, turn: int = 0) -> PlayerPool:
        """Returns the players of one session: the first is told the seed, if any, others after a fault fresh ones."""
        setting, job = self._setting, self._finding.job

        def fresh() -> Iterator[int]:
            for number in itertools.count():
                yield setting.secret_seed(job, str(step.step), str(turn), str(number))

        seeds = itertools.chain([] if seed is None else [seed], fresh())
        entrance = PlayerStarter(
            setting,
            setting.roster[step.submission],
            job,
            self._device,
            lambda: next(seeds),
            fresh_copy=self._copy,
        )
        return PlayerPool(entrance.open, entrance.leaves, FaultBudget.of_check(setting.limits), ahead=False)

    def _picture(self, cell: Cell, picture: int) -> Pixels:
        if cell.attack is None:
            found: Pixels = self._setting.samples.pixels[picture]
            return found
        if cell.attack not in self._made:
            made = self._record.candidates(cell.attack)
            if made is None:
                raise StoreFault(f"the pictures of {cell.attack!r} are not in the record")
            self._made[cell.attack] = made
        shown: Pixels = self._made[cell.attack].pixels[picture]
        return shown


def find_inconsistencies(sittings: tuple[ReproducedSession, ...], *, played: bool) -> tuple[Inconsistency, ...]:
    """Returns the questions that got more than one decision; `played`: those of the play count as well."""
    seen: dict[tuple[str | None, int], dict[int, SeenDecision]] = {}
    for sitting in sittings:
        for place, line in enumerate(sitting.lines):
            given = seen.setdefault((line.attack, line.picture), {})
            if played and is_decision(line.played):
                given.setdefault(line.played, SeenDecision(line.played))
            if is_decision(line.now):
                given.setdefault(line.now, SeenDecision(line.now, sitting.step, place))
    several = ((question, given) for question, given in seen.items() if len(given) > 1)
    return tuple(Inconsistency(*question, tuple(given.values())) for question, given in several)


def exceeds_noise(sittings: tuple[ReproducedSession, ...], several: int, noise: float) -> bool:
    """Returns whether more questions got several decisions than devices that disagree as often as `noise` give.

    A question that is asked so many times disagrees at most so many times as often as one pair does.
    """
    asked = Counter((line.attack, line.picture) for sitting in sittings for line in sitting.lines)
    times = max(asked.values(), default=0)
    return several > 0 and DisagreementRate(several, len(asked)).beyond(min(1.0, times * noise)) < ALPHA
