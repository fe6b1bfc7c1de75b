"""A query job, step by step: pictures are made for one defence, which is asked about them meanwhile.

The organizers' own attacks are played here, in this process. What becomes of a picture does not depend on the others of
its step, so that the size of a step decides only how much is lost when the orchestrator is killed. A submission that
attacks has a sandbox of its own; its steps are its questions, as where it may ask nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.organizer_attacks import OrganizerAttack
from orchestrator.domain.outcomes import FAULTED, NOT_PLAYED
from orchestrator.domain.plan import Job
from orchestrator.domain.queries import QueryFailure, QueryRecord
from orchestrator.domain.samples import AdversarialExamples
from orchestrator.execution import interactions
from orchestrator.execution.broker import Broker
from orchestrator.execution.defence_queries import DefenceQueries
from orchestrator.execution.gate import no_examples
from orchestrator.execution.job_steps import FinishedSteps, StepResult
from orchestrator.execution.player_pool import PlayerPool
from orchestrator.execution.round_context import RoundContext
from orchestrator.ledger.stores.base import put_array

PICTURES_PER_STEP = 32
"""Pictures that the organizers' attacks play at a time: so many share the questions to the defence."""


@dataclass(eq=False)
class QueryStep:
    """What one step came to: the pictures of the task that it played [k], what was made of them, and what was asked."""

    index: NDArray[np.int32]
    examples: AdversarialExamples
    asked: QueryRecord
    queries: DefenceQueries

    def blobs(self, context: RoundContext) -> dict[str, str]:
        """Keeps the arrays; returns their digests by name."""
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
        }
        return {name: put_array(context.blobs, array) for name, array in arrays.items()}


class SubmittedQuerySteps:
    """The steps of a query job whose attack is a submission: its sandbox and the defence's, joined by the broker."""

    def __init__(self, job: Job, context: RoundContext, pool: PlayerPool, attack_pool: PlayerPool) -> None:
        (self._cell,) = job.cells
        self._context, self._pool, self._attack_pool = context, pool, attack_pool

    def play_remaining(self, finished: FinishedSteps) -> Iterator[StepResult]:
        """Yields what is left of the job."""
        starts = range(0, len(self._context.samples), self._context.limits.perturb_batch)
        for number, start in enumerate(starts):
            if number not in finished:
                last = start == starts[-1]
                yield replace(self._play_step(number, start, retire=last), last=last)

    def partial_step(self) -> None:
        """Returns None: a step that ended with a fault of ours is played again as a whole."""

    def _play_step(self, number: int, start: int, *, retire: bool) -> StepResult:
        context, samples, gate = self._context, self._context.samples, self._context.gate()
        pixels = samples.pixels[start : start + context.limits.perturb_batch]
        labels = samples.labels[start : start + len(pixels)]
        queries = DefenceQueries(self._pool, context)
        broker = Broker(
            context.access, gate.budget, queries, start, pixels, labels, context.clock, context.cancelled.wait
        )
        output = interactions.AttackOutput(gate.missing_all(pixels))
        interactions.ask_attack(
            self._attack_pool,
            gate,
            context.limits,
            pixels,
            labels if context.labels else None,
            context.clock,
            output,
            broker.answer,
        )
        if retire:
            output.faults += self._attack_pool.retire_player()
            queries.faults += self._pool.retire_player()
        index = np.arange(start, start + len(pixels), dtype=np.int32)
        step = QueryStep(index=index, examples=output.examples, asked=broker.record, queries=queries)
        of_attack = [fault.model_copy(update={"submission": self._cell.attack}) for fault in output.faults]
        return StepResult(
            number,
            step.blobs(context),
            [*queries.faults, *of_attack],
            queries.seconds,
            queries.fault_seconds,
            (self._cell,),
            fresh=queries.fresh,
            transcript=queries.transcript,
            attack_seconds=output.seconds,
        )


class OrganizerQuerySteps:
    """The steps of a query job whose attack is the organizers' own."""

    def __init__(
        self, job: Job, context: RoundContext, pool: PlayerPool, resumed_step: PartialStep | None = None
    ) -> None:
        (self._cell,) = job.cells
        self._context, self._pool, self._resumed_step = context, pool, resumed_step
        self._in_progress: tuple[int, DefenceQueries] | None = None

    def play_remaining(self, finished: FinishedSteps) -> Iterator[StepResult]:
        """Yields what is left of the job."""
        attack = self._context.organizer_attacks[self._cell.attack or ""]
        count = attack.pictures(len(self._context.samples))
        starts = range(0, count, PICTURES_PER_STEP)
        for number, start in enumerate(starts):
            if number not in finished:
                pictures = range(start, min(start + PICTURES_PER_STEP, count))
                last = start == starts[-1]
                yield replace(self._play_step(number, attack, pictures, retire=last), last=last)

    def partial_step(self) -> PartialStep | None:
        """Returns what was asked in the step that ended with a fault of ours; None where nothing was."""
        if self._in_progress is None:
            return None
        number, queries = self._in_progress
        return queries.partial_step(number)

    def _play_step(self, number: int, attack: OrganizerAttack, pictures: Sequence[int], *, retire: bool) -> StepResult:
        context, samples = self._context, self._context.samples
        resumed = self._resumed_step if self._resumed_step and self._resumed_step.step == number else None
        queries = DefenceQueries(self._pool, context, resumed)
        self._in_progress = number, queries
        step = QueryStep(
            index=np.asarray(pictures, np.int32),
            examples=no_examples(samples.pixels[pictures]),
            asked=QueryRecord.empty(len(pictures)),
            queries=queries,
        )
        # By the attack and the picture alone: every defence meets the same chance.
        seeds = [context.secret_seed("query", attack.name, str(picture)) for picture in pictures]
        generators = [np.random.default_rng(seed) for seed in seeds]
        step.asked.attacked[:] = True
        for made in attack.play(samples, pictures, generators, queries.ask):
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
