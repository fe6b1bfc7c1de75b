"""Plays a finding again, for people who doubt it: the same questions in fresh sandboxes. Nothing is recorded.

The sandboxes run from a copy of the image's files if the backend makes one, as in the round's replays.
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
from orchestrator.execution import player_questions
from orchestrator.execution.fault_budget import FaultBudget
from orchestrator.execution.fresh_copy import FreshCopy
from orchestrator.execution.player_pool import PlayerPool
from orchestrator.execution.query_sample import AskedQuestion, checked_questions, sampled_questions
from orchestrator.execution.round_context import RoundContext
from orchestrator.integrity import findings
from orchestrator.integrity.detection_power import ALPHA, binomial_tail
from orchestrator.integrity.disagreement_rates import DisagreementRate
from orchestrator.integrity.replay_session import is_decision
from orchestrator.ledger.read_model import RoundView

_AGAINST_PLAY = frozenset({FindingKind.ENVIRONMENT, FindingKind.CLOCK, FindingKind.INCONSISTENT})
"""Kinds of findings that may show only between play and replay."""
REPEATS = 2
"""How many times an attack is asked the same questions again, as for its finding."""


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """One question, with its answers in play, when the finding was made, and now.

    `margin` is that of the defence's scores now, None without scores. `refused`: the defence ended, broke the protocol
    or missed the deadline instead of answering now.
    """

    attack: str | None
    picture: int
    pause: float
    answer_in_play: int
    answer_on_record: int
    answer_now: int
    margin: float | None
    refused: bool


@dataclass(frozen=True, slots=True)
class ReproducedSession:
    """One recorded session, asked again in a fresh sandbox. `step` is its recorded number, `seed` the sandbox's now."""

    step: int
    purpose: str
    batch: int
    seed: int | None
    rows: tuple[QuestionRow, ...]


@dataclass(frozen=True, slots=True)
class SeenDecision:
    """A decision and where it was given: at a position of a session, or in play (step None)."""

    answer: int
    step: int | None = None
    position: int = 0


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """One question that got more than one decision, each listed once, where it was given first."""

    attack: str | None
    picture: int
    decisions: tuple[SeenDecision, ...]


@dataclass(frozen=True, slots=True)
class ChangedExample:
    """One picture of an attack: how many values differ from play in each repetition, and between the repetitions."""

    picture: int
    values_changed: tuple[int, ...]
    values_changed_between: int
    largest_change: int


@dataclass(frozen=True)
class Reproduction:
    """The result of playing a finding again, and whether the finding shows again.

    `recorded_seeds` says whether the sandboxes got the recorded seeds, and not fresh ones; sessions that shared a
    recorded seed share a fresh one too. `fresh_copy` is the digest of the copy of the image's files that they ran
    from, empty if they ran from the image itself. For a proof, `pairs_reproduced` of the `pairs` of control and
    sequence show it now. `refused` counts the questions that were answered in play and not now, because the defence
    ended, broke the protocol or missed the deadline.
    """

    reproduced: bool
    recorded_seeds: bool = False
    fresh_copy: str = ""
    pairs_reproduced: int = 0
    pairs: int = 0
    sessions: tuple[ReproducedSession, ...] = ()
    inconsistencies: tuple[Inconsistency, ...] = ()
    refused: int = 0
    compared: int = 0
    changed_examples: tuple[ChangedExample, ...] = ()
    faults: tuple[events.FaultRecord, ...] = ()


class FindingReproducer:
    """Plays one finding again.

    Args:
        context: the round, with a newly drawn secret, from which seeds that are not recorded come.
        view: the fold of the round's ledger.
        finding: the finding to play again.
        device: the GPU to play on, if any.
        recorded_seeds: whether a defence's sandboxes get the recorded seeds, instead of fresh ones.
    """

    def __init__(
        self,
        context: RoundContext,
        view: RoundView,
        finding: Finding,
        device: str | None,
        *,
        recorded_seeds: bool = False,
    ) -> None:
        self._context, self._view, self._finding, self._device = context, view, finding, device
        self._recorded_seeds = recorded_seeds
        self._copy = FreshCopy.of(context, finding.submission)
        self._seeds: dict[int, int] = {}
        self._faults: list[events.FaultRecord] = []
        self._examples: dict[Cell, AdversarialExamples] = {}

    def reproduce(self) -> Reproduction:
        """Returns the result of playing the finding again.

        Raises:
            StoreFault: the ledger does not have the questions.
            InfrastructureFault: a sandbox could not be started, or was lost.
        """
        attack = self._context.roster[self._finding.submission].side is Side.ATTACK
        try:
            if self._finding.kind is FindingKind.QUERIES:
                reproduction = self._reproduce_queries()
            else:
                reproduction = self._reproduce_attack() if attack else self._reproduce_defence()
        finally:
            if self._copy:
                self._copy.discard()
        return replace(reproduction, fresh_copy=self._copy.digest if self._copy else "")

    def _reproduce_defence(self) -> Reproduction:
        finding, on_record = self._finding, self._view.steps(JobId(self._finding.job))
        if missing := [step for step in finding.steps if step not in on_record]:
            raise StoreFault(f"steps {missing} of replay {finding.job} are not on record")
        answers = self._view.answers(finding.submission, len(self._context.samples))
        sessions = tuple(self._replay_session(on_record[step], answers) for step in finding.steps)
        inconsistencies = find_inconsistencies(sessions, include_play=finding.kind in _AGAINST_PLAY)
        lines = [line for session in sessions for line in session.rows]
        pairs = list(zip(sessions[::2], sessions[1::2], strict=False)) if finding.answer_alone is not None else []
        pairs_reproduced = sum(bool(find_inconsistencies(pair, include_play=False)) for pair in pairs)
        if finding.kind is FindingKind.REFUSED:
            failing = sum(any(line.refused for line in session.rows) for session in sessions)
            reproduced = 2 * failing > len(sessions)
        elif pairs:
            reproduced = pairs_reproduced == len(pairs)
        else:
            reproduced = exceeds_noise(sessions, len(inconsistencies), self._context.replay.noise)
        return Reproduction(
            reproduced=reproduced,
            recorded_seeds=self._recorded_seeds,
            pairs_reproduced=pairs_reproduced,
            pairs=len(pairs),
            sessions=sessions,
            inconsistencies=inconsistencies,
            refused=sum(line.refused and is_decision(line.answer_in_play) for line in lines),
            compared=sum(is_decision(line.answer_now) for line in lines),
            faults=tuple(self._faults),
        )

    def _reproduce_queries(self) -> Reproduction:
        """Asks sampled queries again, each in a fresh sandbox; reproduced if more answers differ than noise gives."""
        played = self._view.query_steps(Cell(self._finding.submission, self._finding.disagreements[0].attack))
        asked = [(step, each) for step in played for each in sampled_questions(self._context.blobs, step)]
        count = checked_questions(self._context.limits.classify_batch)
        sessions = tuple(self._ask_again(step, each) for step, each in asked[:count])
        decided = [
            (session.step, place, line)
            for session in sessions
            for place, line in enumerate(session.rows)
            if is_decision(line.answer_now)
        ]
        inconsistencies = tuple(
            Inconsistency(
                line.attack,
                line.picture,
                (SeenDecision(line.answer_in_play), SeenDecision(line.answer_now, step, place)),
            )
            for step, place, line in decided
            if line.answer_now != line.answer_in_play
        )
        p_value = binomial_tail(len(inconsistencies), len(decided), self._context.replay.noise)
        return Reproduction(
            reproduced=bool(inconsistencies) and p_value < ALPHA,
            sessions=sessions,
            inconsistencies=inconsistencies,
            refused=sum(line.refused for session in sessions for line in session.rows),
            compared=len(decided),
            faults=tuple(self._faults),
        )

    def _ask_again(self, step: events.StepFinished, question: AskedQuestion) -> ReproducedSession:
        context, count = self._context, len(question.answers)
        pool = self._make_pool(step, None)
        try:
            now = player_questions.DefenceAnswers.empty(count)
            plan = player_questions.QuestionPlan(context.limits, count)
            player_questions.ask_defence(pool, plan, list(question.pixels), context.clock, now)
            now.faults += pool.retire_player()
        finally:
            pool.close()
        self._faults += now.faults
        lines = tuple(
            QuestionRow(
                attack=step.cells[0].attack,
                picture=int(question.pictures[place]),
                pause=0.0,
                answer_in_play=int(question.answers[place]),
                answer_on_record=int(question.answers[place]),
                answer_now=int(now.answers[place]),
                margin=None if np.isnan(now.margins[place]) else float(now.margins[place]),
                refused=bool(now.refused[place] or now.late[place]),
            )
            for place in range(count)
        )
        return ReproducedSession(step.step, "queries", count, pool.latest_seed, lines)

    def _replay_session(
        self, step: events.StepFinished, answers: Mapping[Cell, NDArray[np.int32]]
    ) -> ReproducedSession:
        if step.session is None:
            raise StoreFault(f"step {step.step} of replay {step.job} does not say how it was asked")
        context, session = self._context, step.session
        cells = [Cell(cell.defence, cell.attack) for cell in step.cells]
        rows = self._view.read_array(step, "rows")
        pictures = [self._picture(cells[cell], picture) for cell, picture in rows[:, :2].tolist()]
        questions = player_questions.QuestionPlan(context.limits, session.batch, session.pauses, context.cancelled.wait)
        seed = self._session_seed(session.seed, step.step)
        pool = self._make_pool(step, seed)
        try:
            answers_now = player_questions.DefenceAnswers.empty(len(pictures))
            player_questions.ask_defence(pool, questions, pictures, context.clock, answers_now)
            answers_now.faults += pool.retire_player()
        finally:
            pool.close()
        self._faults += answers_now.faults
        lines = []
        for place, (cell, picture, then) in enumerate(rows[:, :3].tolist()):
            margin = float(answers_now.margins[place])
            lines.append(
                QuestionRow(
                    attack=cells[cell].attack,
                    picture=picture,
                    pause=session.pauses.get(place, 0.0),
                    answer_in_play=int(answers[cells[cell]][picture]) if cells[cell] in answers else NOT_ASKED,
                    answer_on_record=then,
                    answer_now=int(answers_now.answers[place]),
                    margin=None if np.isnan(margin) else margin,
                    refused=bool(answers_now.refused[place] or answers_now.late[place]),
                )
            )
        return ReproducedSession(step.step, session.purpose, session.batch, seed, tuple(lines))

    def _session_seed(self, recorded: int | None, step: int) -> int:
        """Returns the seed for a session's sandbox: the recorded one, or the fresh one that stands for it."""
        fresh = self._context.secret_seed(self._finding.job, "seed", str(step))
        if recorded is None:
            return fresh
        return recorded if self._recorded_seeds else self._seeds.setdefault(recorded, fresh)

    def _reproduce_attack(self) -> Reproduction:
        """Asks an attack the same questions twice more; reproduced if its pictures differ from play both times.

        As for the finding, each time counts as far as one sandbox went: a fresh one starts its randomness again.
        """
        batches = findings.repeated_steps(self._view, self._finding.submission, JobId(self._finding.job))
        index = [self._view.read_array(play, "index") for play, _, _ in batches]
        if not index:
            raise StoreFault(f"nothing of replay {self._finding.job} is on record")
        examples_in_play = [self._view.step_examples(play) for play, _, _ in batches]
        turns = [self._repeat_attack(batches[0][0], index, turn) for turn in range(REPEATS)]
        redrawn: list[ChangedExample] = []
        for pictures, *given in zip(index, examples_in_play, *turns, strict=False):
            for place, picture in enumerate(pictures.tolist()):
                if any(examples.forfeits[place] == Forfeit.MISSING for examples in given):
                    continue
                first, *others = (examples.pixels[place].astype(np.int16) for examples in given)
                gaps = [np.abs(other - first) for other in others]
                between = int((others[0] != others[1]).sum())
                differ = tuple(int((gap > 0).sum()) for gap in gaps)
                redrawn.append(ChangedExample(picture, differ, between, max(int(gap.max()) for gap in gaps)))
        return Reproduction(
            reproduced=all(any(picture.values_changed[turn] for picture in redrawn) for turn in range(REPEATS)),
            compared=len(redrawn),
            changed_examples=tuple(redrawn),
            faults=tuple(self._faults),
        )

    def _repeat_attack(
        self, step: events.StepFinished, index: list[NDArray[np.int32]], turn: int
    ) -> list[AdversarialExamples]:
        """Returns an attack's examples for batches of pictures from one fresh sandbox, up to its first fault."""
        context, samples = self._context, self._context.samples
        gate = context.gate()
        pool = self._make_pool(step, None, turn)
        examples = []
        try:
            for pictures in index:
                labels = samples.labels[pictures] if context.labels else None
                pixels = samples.pixels[pictures]
                output = player_questions.AttackOutput(gate.missing_all(pixels))
                player_questions.ask_attack(pool, gate, context.limits, pixels, labels, context.clock, output)
                self._faults += output.faults
                examples.append(output.examples)
                if output.faults:
                    break
            self._faults += pool.retire_player()
        finally:
            pool.close()
        return examples

    def _make_pool(self, step: events.StepFinished, seed: int | None, turn: int = 0) -> PlayerPool:
        """Returns the player pool of one session: its first player gets `seed`, if any, later ones fresh seeds."""
        context, job = self._context, self._finding.job

        def fresh() -> Iterator[int]:
            for number in itertools.count():
                yield context.secret_seed(job, str(step.step), str(turn), str(number))

        seeds = itertools.chain([] if seed is None else [seed], fresh())
        pool = PlayerPool(
            context,
            context.roster[step.submission],
            job,
            lambda: next(seeds),
            device=self._device,
            fresh_copy=self._copy,
        )
        pool.begin_attempt(FaultBudget.for_determinism_check(context.limits))
        return pool

    def _picture(self, cell: Cell, picture: int) -> Pixels:
        if cell.attack is None:
            original: Pixels = self._context.samples.pixels[picture]
            return original
        if cell not in self._examples:
            examples = self._view.cell_examples(cell)
            if examples is None:
                raise StoreFault(f"the pictures of {cell.attack!r} are not in the record")
            self._examples[cell] = examples
        candidate: Pixels = self._examples[cell].pixels[picture]
        return candidate


def find_inconsistencies(sessions: tuple[ReproducedSession, ...], *, include_play: bool) -> tuple[Inconsistency, ...]:
    """Returns the questions that got more than one decision; `include_play`: decisions in play count as well."""
    seen: dict[tuple[str | None, int], dict[int, SeenDecision]] = {}
    for session in sessions:
        for place, line in enumerate(session.rows):
            given = seen.setdefault((line.attack, line.picture), {})
            if include_play and is_decision(line.answer_in_play):
                given.setdefault(line.answer_in_play, SeenDecision(line.answer_in_play))
            if is_decision(line.answer_now):
                given.setdefault(line.answer_now, SeenDecision(line.answer_now, session.step, place))
    several = ((question, given) for question, given in seen.items() if len(given) > 1)
    return tuple(Inconsistency(*question, tuple(given.values())) for question, given in several)


def exceeds_noise(sessions: tuple[ReproducedSession, ...], inconsistent: int, noise: float) -> bool:
    """Returns whether more questions got several decisions than the noise rate of devices explains.

    `noise` is the rate at which one pair of answers disagrees; a question asked k times disagrees at most k times as
    often.
    """
    question_counts = Counter((line.attack, line.picture) for session in sessions for line in session.rows)
    times = max(question_counts.values(), default=0)
    return (
        inconsistent > 0
        and DisagreementRate(inconsistent, len(question_counts)).p_above_noise(min(1.0, times * noise)) < ALPHA
    )
