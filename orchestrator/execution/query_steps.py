"""Plays a query job, step by step: an attack makes pictures for one defence and queries it meanwhile.

The organizers' own attacks run in this process. The outcome of a picture does not depend on the other pictures of its
step, so the size of a step decides only how much is lost if the orchestrator is killed. A submitted attack has a
sandbox of its own; each step is one question to it, as for an attack that may not query.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain import events
from orchestrator.domain.access import Transcript
from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.outcomes import FAULTED, NOT_PLAYED
from orchestrator.domain.plan import Job
from orchestrator.domain.queries import QueryFailure, QueryRecord
from orchestrator.domain.samples import AdversarialExamples
from orchestrator.execution import player_questions
from orchestrator.execution.attack_output_gate import no_examples
from orchestrator.execution.defence_queries import DefenceQueries
from orchestrator.execution.job_steps import FinishedSteps, StepResult
from orchestrator.execution.player_pool import PlayerPool
from orchestrator.execution.player_questions import AttackOutput, DefenceAnswers, QuestionPlan
from orchestrator.execution.query_broker import Broker
from orchestrator.execution.query_progress import QueryProgress, WatchedDefence
from orchestrator.execution.query_sample import AskedQuestion, QuestionSample, checked_questions, sampled_questions
from orchestrator.execution.round_context import RoundContext
from orchestrator.ledger.stores.base import Blobs, get_array, put_array

PICTURES_PER_STEP = 32
"""Pictures that the organizers' attacks play at a time; their queries share the questions to the defence."""


@dataclass(eq=False)
class QueryStep:
    """The result of one step: the numbers of its pictures in the task [k], the examples made of them, the queries."""

    index: NDArray[np.int32]
    examples: AdversarialExamples
    asked: QueryRecord
    queries: DefenceQueries

    def blobs(self, context: RoundContext) -> dict[str, str]:
        """Stores the arrays; returns their digests by name."""
        made, asked = self.examples, self.asked
        arrays: dict[str, NDArray[Any]] = {
            "index": self.index,
            "candidates": made.pixels,
            "forfeits": made.forfeits,
            "violations": made.violations,
            "distances": made.distances,
            "queries": asked.queries,
            "fooled_at": asked.fooled_at,
            "failures": asked.failures,
            "given_up": asked.given_up,
            "replies": self.queries.replies(),
            **self.queries.transcript_arrays(),
            **self.queries.sample.arrays(),
        }
        return {name: put_array(context.blobs, array) for name, array in arrays.items()}


class QuerySteps(ABC):
    """The steps of a query job: one for each part of the pictures, then one that asks some questions again.

    The questions of the last step are asked in fresh sandboxes of the defence.
    """

    def __init__(
        self, job: Job, context: RoundContext, pool: PlayerPool, resumed_step: PartialStep | None = None
    ) -> None:
        (self._cell,) = job.cells
        self._job, self._context, self._pool, self._resumed_step = job, context, pool, resumed_step
        self._check: QueryCheck | None = None
        self._progress = QueryProgress(context, self._cell)

    @property
    @abstractmethod
    def _most_queries(self) -> int:
        """The most queries that one picture costs."""

    @property
    def _questions(self) -> int:
        """How many questions are asked again."""
        return checked_questions(self._context.limits.classify_batch)

    @abstractmethod
    def _parts(self) -> Sequence[Sequence[int]]:
        """Returns the pictures of each step."""

    @abstractmethod
    def _play_step(self, number: int, pictures: Sequence[int], sample: QuestionSample, *, retire: bool) -> StepResult:
        """Plays one step; with `retire`, ends the players before it returns."""

    def play_remaining(self, finished: FinishedSteps) -> Iterator[StepResult]:
        """Yields the results of the remaining steps."""
        parts, checks = self._parts(), bool(self._context.replay.power)
        self._progress.begin(sum(map(len, parts)), self._most_queries)
        for number, pictures in enumerate(parts):
            if number not in finished:
                self._progress.begin_step(sum(map(len, parts[:number])))
                last = number == len(parts) - 1
                step = self._play_step(number, pictures, self._sample(number, len(parts)), retire=last)
                yield replace(step, last=last and not checks)
        if checks and len(parts) not in finished:
            yield self._check_step(len(parts), [finished[number] for number in range(len(parts))])

    def _sample(self, number: int, steps: int) -> QuestionSample:
        """Returns the sample that keeps a step's share of the questions to ask again; of size 0 without replays."""
        size = ceil(self._questions / steps) if self._context.replay.power else 0
        return QuestionSample(self._generator("sample", str(number)), size)

    def _generator(self, *purpose: str) -> np.random.Generator:
        return np.random.default_rng(self._context.secret_seed("queries", *purpose, *self._job.seed_parts))

    def _check_step(self, number: int, played: Sequence[events.StepFinished]) -> StepResult:
        """Asks some of the questions again, each in a fresh sandbox."""
        context = self._context
        asked = [each for step in played for each in sampled_questions(context.blobs, step)]
        chosen = self._generator("check").permutation(len(asked))[: self._questions]
        check = self._check = QueryCheck.begin(number, self._resumed_step, context.blobs)
        for question in (asked[place] for place in chosen[check.completed :]):
            check.faults += self._pool.retire_player()
            again = DefenceAnswers.empty(len(question.answers))
            plan = QuestionPlan(context.limits, len(question.answers))
            player_questions.ask_defence(self._pool, plan, list(question.pixels), context.clock, again)
            check.note(question, again)
        check.faults += self._pool.retire_player()
        self._check = None
        blobs = check.save(context.blobs)
        return StepResult(number, blobs, check.faults, check.seconds, cells=(self._cell,), last=True)

    def partial_step(self) -> PartialStep | None:
        """Returns the played part of the step that an infrastructure fault interrupted, None if nothing was played."""
        return None if self._check is None else self._check.partial_step(self._context.blobs)


@dataclass(eq=False)
class QueryCheck:
    """Questions asked again: rows of picture, answer then and answer now [m, 3], and how many are completed."""

    step: int
    rows: NDArray[np.int32]
    completed: int = 0
    faults: list[events.FaultRecord] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def begin(cls, number: int, resumed: PartialStep | None, blobs: Blobs) -> "QueryCheck":
        """Returns a new check, or one with the questions that another process asked."""
        if resumed is None or resumed.step != number or not resumed.blobs:
            return cls(number, np.empty((0, 3), np.int32))
        rows = get_array(blobs, resumed.blobs["checked_rows"])
        return cls(number, rows, resumed.completed, list(resumed.faults), resumed.seconds)

    def note(self, question: AskedQuestion, again: DefenceAnswers) -> None:
        """Adds the answers that a question got now."""
        rows = np.column_stack([question.pictures, question.answers, again.answers])
        self.rows = np.concatenate([self.rows, rows.astype(np.int32)])
        self.completed += 1
        self.faults += again.faults
        self.seconds += again.seconds

    def save(self, blobs: Blobs) -> dict[str, str]:
        """Stores the rows; returns their digest by name."""
        return {"checked_rows": put_array(blobs, self.rows)}

    def partial_step(self, blobs: Blobs) -> PartialStep | None:
        """Returns the questions asked so far, for another process, or None if none was."""
        if not self.completed:
            return None
        return PartialStep(
            step=self.step,
            completed=self.completed,
            blobs=self.save(blobs),
            faults=self.faults,
            seconds=self.seconds,
        )


class SubmittedQuerySteps(QuerySteps):
    """The steps of a query job whose attack is a submission: the broker joins its sandbox and the defence's.

    Another process continues a step from its beginning: it asks a fresh attack the same question with the same seed. As
    long as the attack makes the same queries as before, it gets the same replies as before.
    """

    def __init__(
        self,
        job: Job,
        context: RoundContext,
        pool: PlayerPool,
        attack_pool: PlayerPool,
        resumed_step: PartialStep | None = None,
    ) -> None:
        super().__init__(job, context, pool, resumed_step)
        self._attack_pool = attack_pool
        self._in_progress: tuple[int, DefenceQueries, QueryRecord, AttackOutput] | None = None

    @property
    def _most_queries(self) -> int:
        """The query budget divided by the lowest price."""
        return self._context.access.most_pictures

    def _parts(self) -> Sequence[Sequence[int]]:
        """Returns the pictures of each question to the attack."""
        return _attack_questions(self._context)

    def _play_step(self, number: int, pictures: Sequence[int], sample: QuestionSample, *, retire: bool) -> StepResult:
        context, samples, gate = self._context, self._context.samples, self._context.gate()
        pixels, labels = samples.pixels[pictures], samples.labels[pictures]
        resumed = self._resumed_step if self._resumed_step and self._resumed_step.step == number else None
        queries = DefenceQueries(
            self._pool,
            context,
            sample,
            resumed,
            full=context.access.transcript is Transcript.FULL,
            resumable=True,
        )
        watched = WatchedDefence(queries, self._progress)
        broker = Broker(
            context.access, gate.budget, watched, pictures[0], pixels, labels, context.clock, context.cancelled.wait
        )
        if resumed is not None and resumed.blobs:  # even if the attack makes other queries now
            broker.record.failures[:] = get_array(context.blobs, resumed.blobs["failures"])
        output = AttackOutput(gate.missing_all(pixels))
        self._in_progress = number, queries, broker.record, output
        player_questions.ask_attack(
            self._attack_pool,
            gate,
            context.limits,
            pixels,
            labels if context.labels else None,
            context.clock,
            output,
            broker.answer,
        )
        self._in_progress = None
        self._progress.count_pictures(len(pictures))
        if retire:
            output.faults += self._attack_pool.retire_player()
            queries.faults += self._pool.retire_player()
        index = np.asarray(pictures, np.int32)
        step = QueryStep(index=index, examples=output.examples, asked=broker.record, queries=queries)
        return StepResult(
            number,
            step.blobs(context),
            [*queries.faults, *self._attack_faults(output)],
            queries.seconds,
            queries.fault_seconds,
            (self._cell,),
            fresh=queries.fresh,
            transcript=queries.transcript,
            attack_seconds=output.seconds,
        )

    def _attack_faults(self, output: AttackOutput) -> list[events.FaultRecord]:
        return [fault.model_copy(update={"submission": self._cell.attack}) for fault in output.faults]

    def partial_step(self) -> PartialStep | None:
        """Returns the queries of the step that an infrastructure fault interrupted, None if there was none."""
        if self._in_progress is None:
            return super().partial_step()
        number, queries, asked, output = self._in_progress
        queries.faults += self._attack_faults(output)
        partial_step = queries.partial_step(number)
        if partial_step is None:
            return None
        failures = {"failures": put_array(self._context.blobs, asked.failures)}
        return partial_step.model_copy(update={"blobs": partial_step.blobs | failures})


class UnstartedDefenceSteps(SubmittedQuerySteps):
    """The steps of a query job whose defence cannot be started: the attack is not asked, and has no fault.

    The defence plays no picture, so it loses every picture whatever the attack would have made of it (rule A7).
    """

    def _play_step(self, number: int, pictures: Sequence[int], sample: QuestionSample, *, retire: bool) -> StepResult:
        context, pixels, index = self._context, self._context.samples.pixels[pictures], np.asarray(pictures, np.int32)
        queries = DefenceQueries(self._pool, context, sample, full=context.access.transcript is Transcript.FULL)
        if self._resumed_step is not None and self._resumed_step.step == number:
            queries.faults += self._resumed_step.faults
        queries.ask(pixels, index)
        asked = QueryRecord.empty(len(pictures))
        asked.attacked[:], asked.queries[:], asked.failures[:] = True, 1, QueryFailure.NOT_PLAYED
        if retire:
            queries.faults += self._pool.retire_player()
        step = QueryStep(index=index, examples=no_examples(pixels), asked=asked, queries=queries)
        return StepResult(
            number,
            step.blobs(context),
            queries.faults,
            queries.seconds,
            queries.fault_seconds,
            (self._cell,),
            transcript=queries.transcript,
        )


class OrganizerQuerySteps(QuerySteps):
    """The steps of a query job whose attack is one of the organizers' own."""

    def __init__(
        self, job: Job, context: RoundContext, pool: PlayerPool, resumed_step: PartialStep | None = None
    ) -> None:
        super().__init__(job, context, pool, resumed_step)
        self._attack = context.organizer_attacks[self._cell.attack or ""]
        self._in_progress: tuple[int, DefenceQueries] | None = None

    @property
    def _most_queries(self) -> int:
        """The number that the attack declares."""
        return self._attack.queries_per_picture

    def _parts(self) -> Sequence[Sequence[int]]:
        """Returns the pictures that are attacked at the same time."""
        return _split(self._attack.pictures(len(self._context.samples)), PICTURES_PER_STEP)

    def partial_step(self) -> PartialStep | None:
        """Returns the queries of the step that an infrastructure fault interrupted, None if there was none."""
        if self._in_progress is None:
            return super().partial_step()
        number, queries = self._in_progress
        return queries.partial_step(number)

    def _play_step(self, number: int, pictures: Sequence[int], sample: QuestionSample, *, retire: bool) -> StepResult:
        context, samples, attack = self._context, self._context.samples, self._attack
        resumed = self._resumed_step if self._resumed_step and self._resumed_step.step == number else None
        queries = DefenceQueries(self._pool, context, sample, resumed, resumable=True)
        self._in_progress = number, queries
        step = QueryStep(
            index=np.asarray(pictures, np.int32),
            examples=no_examples(samples.pixels[pictures]),
            asked=QueryRecord.empty(len(pictures)),
            queries=queries,
        )
        # Seeds depend on the attack and the picture only: its randomness is the same against every defence.
        seeds = [context.secret_seed("query", attack.name, str(picture)) for picture in pictures]
        generators = [np.random.default_rng(seed) for seed in seeds]
        step.asked.attacked[:] = True
        watched = WatchedDefence(queries, self._progress)
        for made in attack.play(samples, pictures, generators, watched, context.task.budget):
            self._progress.count_pictures(1)
            place = made.picture - pictures[0]
            step.examples.pixels[place] = made.pixels
            step.asked.queries[place] = made.queries
            step.asked.given_up[place] = bool(made.give_up_reason)
        for answer, failure in ((FAULTED, QueryFailure.FAULTED), (NOT_PLAYED, QueryFailure.NOT_PLAYED)):
            step.asked.failures[np.unique(queries.pictures_with(answer)) - pictures[0]] = failure
        self._in_progress = None
        if retire:
            queries.faults += self._pool.retire_player()
        return StepResult(
            number,
            step.blobs(context),
            queries.faults,
            queries.seconds,
            queries.fault_seconds,
            (self._cell,),
            fresh=queries.fresh,
            transcript=queries.transcript,
        )


def attack_is_over(context: RoundContext, finished: FinishedSteps) -> bool:
    """Returns whether an attack that queries has played all its steps of a job, so that only the defence is needed."""
    return all(number in finished for number, _ in enumerate(_attack_questions(context)))


def _attack_questions(context: RoundContext) -> list[range]:
    """Returns the pictures of each question to an attack that is a submission."""
    return _split(len(context.samples), context.limits.perturb_batch)


def _split(count: int, size: int) -> list[range]:
    """Returns the numbers below `count` in ranges of `size`; the last may be shorter."""
    return [range(start, min(start + size, count)) for start in range(0, count, size)]
