"""One job under way: its attempt, what of it is on the ledger, and what the next attempt goes on with.

Everything that a driver handed out is told apart from what the ledger has already by its content: a step by its number,
a failure by all of its fields, which name the attempt. So a controller that was killed between any two acts finds its
place again, and nothing is kept twice.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.events import AttemptFailed, Event, JobFinished, StepFinished
from orchestrator.domain.text import printable
from orchestrator.errors import InfrastructureFault, PodUsedUp, StoreFault
from orchestrator.executors.base import EventBatch
from orchestrator.executors.kubernetes import oom_correction
from orchestrator.executors.kubernetes.labels import Attempt
from orchestrator.executors.kubernetes.pod_manifest import ATTACK, PLAYER

SandboxReport = StepFinished | JobFinished | PartialStep
_SHOWN = 1000


class StartFailure(NamedTuple):
    """A player that a node did not start: whose, which node, and when, in the controller's time."""

    submission: str
    node: str
    time: float


@dataclass(eq=False)
class ActiveJob:
    """A job under way, and its attempt number `attempt.number`.

    `finished_steps` and `failures` are what the ledger has of the job. `resumed_step` is the half-played step that this
    attempt began with. `batches_read` counts the attempt's batches that were read and are kept. `fruitless_attempts`
    attempts one after another finished nothing; `start_failures` are of those at its end, in which a node did not start
    a player. `attack` is the submission that queries the job's defence, empty where none does; `last_culprit` whose
    container could not start where that was the last failure, empty where it was another.
    """

    attempt: Attempt
    finished_steps: set[int]
    failures: set[AttemptFailed]
    resumed_step: PartialStep | None = None
    fruitless_attempts: int = 0
    start_failures: tuple[StartFailure, ...] = ()
    batches_read: int = 0
    last_failure: InfrastructureFault | None = None
    attack: str = ""
    last_culprit: str = ""
    _inherited_counts: tuple[int, int] = (0, 0)
    _initial_progress: tuple[int, tuple[int, int]] = field(default=(0, (0, 0)))
    _start_failure: StartFailure | None = None

    def __post_init__(self) -> None:
        given = self.resumed_step
        self._inherited_counts = (len(given.sandboxes), len(given.faults)) if given else (0, 0)
        progress = given.progress if given and self.remaining(given) else (0, 0)
        self._initial_progress = (len(self.finished_steps), progress)

    def next_attempt(self, partial_step: PartialStep | None, *, counts_as_played: bool = True) -> "ActiveJob":
        """Returns the same job with its next attempt, which goes on with `partial_step`.

        `counts_as_played`: the attempt before it was one that played.
        """
        refused_by = self._start_failure.node if self._start_failure else ""
        following = Attempt(self.attempt.round_ref, self.attempt.job, self.attempt.number + 1, refused_by=refused_by)
        end = (len(self.finished_steps), partial_step.progress if partial_step else (0, 0))
        fruitless = 0 if end > self._initial_progress else self.fruitless_attempts + counts_as_played
        refusals = (
            (*self.start_failures, self._start_failure)
            if self._start_failure and fruitless > self.fruitless_attempts
            else ()
        )
        return ActiveJob(
            following,
            self.finished_steps,
            self.failures,
            partial_step,
            fruitless,
            refusals,
            last_failure=self.last_failure,
            attack=self.attack,
            last_culprit=self.last_culprit,
        )

    def remaining(self, partial_step: PartialStep | None) -> PartialStep | None:
        """Returns what is still to be carried on of a half-played step: nothing once the step is on record."""
        return None if partial_step is None or partial_step.step in self.finished_steps else partial_step

    def player_in(self, container: str) -> str:
        """Returns whose container it is, empty where it is no player's."""
        return {PLAYER: self.attempt.job.submission, ATTACK: self.attack}.get(container, "")

    def has_ambiguous_exit(self, reports: Iterable[Event | PartialStep], container: str) -> bool:
        """Whether the status of a player's container may say more of an end than the driver could see."""
        return any(
            oom_correction.has_ambiguous_exit(each.sandboxes, carried, of_attack=container == ATTACK)
            for each, carried, _ in self._own_reports(reports)
        )

    def is_charged_to_player(self, reports: Iterable[Event | PartialStep], container: str) -> bool:
        """Whether an end that nobody can attribute is held against a player there, unless it was out of memory."""
        return any(
            oom_correction.is_charged_to_player(each, carried, faults, of_attack=container == ATTACK)
            for each, carried, faults in self._own_reports(reports)
        )

    def with_oom(self, batch: EventBatch, container: str) -> EventBatch:
        """Returns a doubtful batch as a player's container's status has it: out of memory."""
        counts = {id(event): (sandboxes, faults) for event, sandboxes, faults in self._own_reports(batch)}
        of_attack = container == ATTACK

        def change(event: Event) -> Event:
            if isinstance(event, StepFinished):
                return oom_correction.with_oom(event, *counts[id(event)], of_attack=of_attack)
            if isinstance(event, JobFinished):
                return oom_correction.with_oom(event, *counts[id(event)], of_attack=of_attack)
            return event

        return tuple(map(change, batch))

    def step_with_oom(self, partial_step: PartialStep, container: str) -> PartialStep:
        """Returns a doubtful half-played step likewise."""
        [(_, sandboxes, faults)] = self._own_reports([partial_step])
        return oom_correction.with_oom(partial_step, sandboxes, faults, of_attack=container == ATTACK)

    def _own_reports(self, reports: Iterable[Event | PartialStep]) -> Iterator[tuple[SandboxReport, int, int]]:
        """Yields what tells of sandboxes, with how many of its sandboxes and faults are an earlier pod's."""
        carried = self._inherited_counts
        for report in reports:
            if not isinstance(report, StepFinished | JobFinished | PartialStep):
                continue
            same = (
                self.resumed_step is not None
                and not isinstance(report, JobFinished)
                and report.step == self.resumed_step.step
            )
            yield report, carried[0], carried[1] if same else 0
            carried = (0, 0)

    def unrecorded(self, batch: EventBatch) -> EventBatch:
        """Returns a batch as the ledger is to have it; empty where it has it.

        Raises:
            StoreFault: it is about another job.
        """
        if any(getattr(each, "job", None) != self.attempt.job.id for each in batch):
            raise StoreFault(f"what {self.attempt.name} left is about another job; see who writes to the volume")
        steps = {each.step for each in batch if isinstance(each, StepFinished)}
        if steps & self.finished_steps:
            return ()
        stamped = (self._with_attempt_name(each) if isinstance(each, AttemptFailed) else each for each in batch)
        return tuple(each for each in stamped if not isinstance(each, AttemptFailed) or each not in self.failures)

    def record_batch(self, batch: EventBatch) -> None:
        """Notes that a batch, as its driver handed it out, is on the ledger."""
        self.batches_read += 1
        for event in batch:
            if isinstance(event, AttemptFailed):
                self.failures.add(self._with_attempt_name(event))
                self.last_failure, self.last_culprit = fault_from_code(event.code, event.message), ""
            if isinstance(event, StepFinished | JobFinished):
                self._inherited_counts = (0, 0)
            if isinstance(event, StepFinished):
                self.finished_steps.add(event.step)

    def _with_attempt_name(self, failure: AttemptFailed) -> AttemptFailed:
        """Returns what a driver says of its own tries so that no other attempt's are equal to it."""
        return failure.model_copy(update={"message": printable(f"in {self.attempt.name}: {failure.message}", _SHOWN)})

    def record_start_failure(self, submission: str, node: str, time: float) -> None:
        """Notes that the attempt's node did not start a player."""
        self._start_failure = StartFailure(submission, node, time)

    def record_failure(self, error: InfrastructureFault, culprit: str = "") -> EventBatch:
        """Notes that the attempt failed; returns what is to be kept of it, which is nothing the second time.

        `culprit` is the submission whose container could not start, where that is why.
        """
        self.last_failure, self.last_culprit = error, culprit
        name = f"{self.attempt.name}: "
        number = self.attempt.number
        if any(each.attempt == number and each.message.startswith(name) for each in self.failures):
            return ()
        text = printable(name + str(error), _SHOWN)
        event = AttemptFailed(job=self.attempt.job.id, attempt=number, code=error.code, message=text)
        self.failures.add(event)
        return (event,)

    @property
    def give_up_reason(self) -> InfrastructureFault:
        """Why the job cannot go on, where it got nowhere too often."""
        nowhere = f"job {self.attempt.job.id} got nowhere in {self.fruitless_attempts} pods one after another"
        if self.last_failure is None:
            return PodUsedUp(f"{nowhere}; run again, and look at its submission's standard error")
        return fault_from_code(self.last_failure.code, f"{nowhere}; at last: {self.last_failure}")


def resume_job(attempt: Attempt, assignment: Assignment, resumed_step: PartialStep | None) -> ActiveJob:
    """Returns the job of an attempt, from what the ledger has of it: the excerpt in `assignment`."""
    job_events = [event for event in assignment.events if getattr(event, "job", None) == attempt.job.id]
    steps = {event.step for event in job_events if isinstance(event, StepFinished)}
    failures = {event for event in job_events if isinstance(event, AttemptFailed)}
    attack = (attempt.job.cells[0].attack or "") if assignment.attack_image else ""
    return ActiveJob(attempt, steps, failures, resumed_step, attack=attack)


def fault_from_code(code: str, message: str) -> InfrastructureFault:
    """Returns the fault of ours that has this code, as a driver told it."""
    kind = next((each for each in _with_subclasses(InfrastructureFault) if each.code == code), InfrastructureFault)
    return kind(message)


def _with_subclasses(kind: type[InfrastructureFault]) -> list[type[InfrastructureFault]]:
    return [kind, *(found for each in kind.__subclasses__() for found in _with_subclasses(each))]
