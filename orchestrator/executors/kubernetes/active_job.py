"""One active job: its attempt, the events of it in the ledger, and what the next attempt continues with.

The content of a driver's event decides whether the ledger already has it: the number of a step, or all fields of a
failure, which name the attempt. So a controller that was killed between any two actions can continue, and no event is
stored twice.
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
    """A player that a node did not start: its submission, the node, and the controller's time."""

    submission: str
    node: str
    time: float


@dataclass(eq=False)
class ActiveJob:
    """An active job, and its current attempt.

    `finished_steps` and `failures` are the job's in the ledger. `resumed_step` is the partial step with which this
    attempt began. `batches_read` counts the attempt's batches that were read and stored. `fruitless_attempts` counts
    the latest consecutive attempts that made no progress; `start_failures` are those of the last ones among them in
    which a node did not start a player. `attack` is the submission that queries the job's defence, empty if none does.
    `last_culprit` is the submission whose container could not start in the last failure, empty for other failures.
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

    def next_attempt(
        self, partial_step: PartialStep | None, *, counts_as_played: bool = True, rejected_by: str = ""
    ) -> "ActiveJob":
        """Returns the same job with its next attempt, which continues with `partial_step`.

        `counts_as_played`: whether this attempt counts as fruitless if it made no progress. `rejected_by` is the node
        that did not admit its pod; empty if there is none.
        """
        refused_by = self._start_failure.node if self._start_failure else rejected_by
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
        """Returns the partial step if the step is not in the ledger yet, else None."""
        return None if partial_step is None or partial_step.step in self.finished_steps else partial_step

    def player_in(self, container: str) -> str:
        """Returns the submission whose player runs in a container, empty if it is not a player's."""
        return {PLAYER: self.attempt.job.submission, ATTACK: self.attack}.get(container, "")

    def has_ambiguous_exit(self, reports: Iterable[Event | PartialStep], container: str) -> bool:
        """Returns whether the container's status may say more about the end of its player than the driver could see."""
        return any(
            oom_correction.has_ambiguous_exit(each.sandboxes, carried, of_attack=container == ATTACK)
            for each, carried, _ in self._own_reports(reports)
        )

    def is_charged_to_player(self, reports: Iterable[Event | PartialStep], container: str) -> bool:
        """Returns whether an ambiguous exit there counts against the player, unless it was out of memory."""
        return any(
            oom_correction.is_charged_to_player(each, carried, faults, of_attack=container == ATTACK)
            for each, carried, faults in self._own_reports(reports)
        )

    def with_oom(self, batch: EventBatch, container: str) -> EventBatch:
        """Returns a batch with its ambiguous exit corrected to out of memory, as the container's status says."""
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
        """Returns a partial step corrected in the same way; see `with_oom`."""
        [(_, sandboxes, faults)] = self._own_reports([partial_step])
        return oom_correction.with_oom(partial_step, sandboxes, faults, of_attack=container == ATTACK)

    def _own_reports(self, reports: Iterable[Event | PartialStep]) -> Iterator[tuple[SandboxReport, int, int]]:
        """Yields the reports that have sandboxes, with how many of the sandboxes and faults are from an earlier pod."""
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
        """Returns the events of a batch as the ledger stores them, without those that it has.

        Raises:
            StoreFault: the batch is about another job.
        """
        if any(getattr(each, "job", None) != self.attempt.job.id for each in batch):
            raise StoreFault(f"what {self.attempt.name} left is about another job; see who writes to the volume")
        steps = {each.step for each in batch if isinstance(each, StepFinished)}
        if steps & self.finished_steps:
            return ()
        stamped = (self._with_attempt_name(each) if isinstance(each, AttemptFailed) else each for each in batch)
        return tuple(each for each in stamped if not isinstance(each, AttemptFailed) or each not in self.failures)

    def record_batch(self, batch: EventBatch) -> None:
        """Records that the ledger has a batch, given as its driver wrote it."""
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
        """Returns a driver's failure with the attempt's name in its message, so that no other attempt's is equal."""
        return failure.model_copy(update={"message": printable(f"in {self.attempt.name}: {failure.message}", _SHOWN)})

    def record_start_failure(self, submission: str, node: str, time: float) -> None:
        """Records that the attempt's node did not start a player."""
        self._start_failure = StartFailure(submission, node, time)

    def record_failure(self, error: InfrastructureFault, culprit: str = "") -> EventBatch:
        """Records that the attempt failed; returns the event to store, and no event if it was recorded before.

        `culprit` is the submission whose container could not start, if that is the reason.
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
        """Why the job is given up after its fruitless attempts."""
        nowhere = f"job {self.attempt.job.id} got nowhere in {self.fruitless_attempts} pods one after another"
        if self.last_failure is None:
            return PodUsedUp(f"{nowhere}; run again, and look at its submission's standard error")
        return fault_from_code(self.last_failure.code, f"{nowhere}; at last: {self.last_failure}")


def resume_job(attempt: Attempt, assignment: Assignment, resumed_step: PartialStep | None) -> ActiveJob:
    """Returns the active job of an attempt, from the excerpt of the ledger in `assignment`."""
    job_events = [event for event in assignment.events if getattr(event, "job", None) == attempt.job.id]
    steps = {event.step for event in job_events if isinstance(event, StepFinished)}
    failures = {event for event in job_events if isinstance(event, AttemptFailed)}
    attack = (attempt.job.cells[0].attack or "") if assignment.attack_image else ""
    return ActiveJob(attempt, steps, failures, resumed_step, attack=attack)


def fault_from_code(code: str, message: str) -> InfrastructureFault:
    """Returns the infrastructure fault with this code, as a driver reported it."""
    kind = next((each for each in _with_subclasses(InfrastructureFault) if each.code == code), InfrastructureFault)
    return kind(message)


def _with_subclasses(kind: type[InfrastructureFault]) -> list[type[InfrastructureFault]]:
    return [kind, *(found for each in kind.__subclasses__() for found in _with_subclasses(each))]
