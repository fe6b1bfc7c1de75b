"""One job under way: its attempt, what of it is on record, and what the next attempt goes on with.

Everything that a driver handed out is told apart from what the ledger has already by what it says: a step by its
number, a failure by all of its fields, which name the attempt. So a controller that was killed between two moments, any
two, finds its place again, and nothing is kept twice.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import structlog

from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.events import AttemptFailed, Event, JobFinished, StepFinished
from orchestrator.domain.text import printable
from orchestrator.errors import InfrastructureFault, PodRefused, PodUsedUp, StoreFault
from orchestrator.executors.kubernetes import oom_correction
from orchestrator.executors.kubernetes.attempt_status import AttemptState, AttemptStatus
from orchestrator.executors.kubernetes.labels import Attempt

_log = structlog.get_logger()
EventBatch = tuple[Event, ...]
SandboxReport = StepFinished | JobFinished | PartialStep
_SHOWN = 1000


JOB_NOT_CREATED = AttemptStatus(AttemptState.WAITING, "not made yet", PodRefused)


@dataclass(eq=False)
class ActiveJob:
    """A job under way, and its attempt number `attempt.number`.

    `given` is the half-played step that this attempt began with. `made`: its Job was made, or seen. `read` counts the
    batches that were read, all of them kept. `ended`: its driver's last word was seen. `fruitless` attempts one after
    another finished nothing; `refusals` are those at its end whose player a node did not start: which node, and when.
    `node` is its pod's, once it has one, also when the pod is gone. The times are the controller's, None where
    something has not begun.
    """

    attempt: Attempt
    steps: set[int]
    failures: set[AttemptFailed]
    given: PartialStep | None = None
    fruitless: int = 0
    refusals: tuple[tuple[str, float], ...] = ()
    made: bool = False
    made_at: float | None = None
    read: int = 0
    finished: bool = False
    ended: bool = False
    last_failure: InfrastructureFault | None = None
    waits_since: float | None = None
    late_since: float | None = None
    held_since: float | None = None
    again_at: float = 0.0
    standing: AttemptStatus = JOB_NOT_CREATED
    verdict: AttemptStatus | None = None
    queued: bool = False
    node: str = ""
    _carried: tuple[int, int] = (0, 0)
    _mark: tuple[int, int] = field(default=(0, 0))
    _refusal: tuple[str, float] | None = None

    def __post_init__(self) -> None:
        given = self.given
        self._carried = (len(given.sandboxes), len(given.faults)) if given else (0, 0)
        self._mark = (len(self.steps), given.progress if given and self.left(given) else 0)

    def stands(self, now: AttemptStatus) -> None:
        """Notes where the attempt stands; `queued` from a wait without end until its pod has a node."""
        waits = now.state is AttemptState.WAITING and not now.node
        self.standing, self.queued = now, now.endless or (self.queued and waits)
        self.node = now.node or self.node  # a pod that is gone has none

    def next(self, half: PartialStep | None, *, counts: bool = True) -> "ActiveJob":
        """Returns the same job with its next attempt, which goes on with `half`; `counts`: as one that was played."""
        following = Attempt(self.attempt.bout, self.attempt.job, self.attempt.number + 1)
        end = (len(self.steps), half.progress if half else 0)
        fruitless = 0 if end > self._mark else self.fruitless + counts
        refusals = (*self.refusals, self._refusal) if self._refusal and fruitless > self.fruitless else ()
        return ActiveJob(
            following, self.steps, self.failures, half, fruitless, refusals, last_failure=self.last_failure
        )

    def left(self, half: PartialStep | None) -> PartialStep | None:
        """Returns what is still to be carried on of a half-played step: nothing once the step is on record."""
        return None if half is None or half.step in self.steps else half

    def is_doubtful(self, told: Iterable[Event | PartialStep]) -> bool:
        """Whether the status of the player's container may say more of an end than the driver could see."""
        return any(oom_correction.has_ambiguous_exit(each.sandboxes, carried) for each, carried, _ in self._own(told))

    def is_blamed(self, told: Iterable[Event | PartialStep]) -> bool:
        """Whether an end that nobody can attribute is held against the player there, unless it was out of memory."""
        return any(
            oom_correction.is_charged_to_player(each, carried, faults) for each, carried, faults in self._own(told)
        )

    def settled(self, batch: EventBatch) -> EventBatch:
        """Returns a doubtful batch as the player's container's status has it: out of memory."""
        own = {id(each): (sandboxes, faults) for each, sandboxes, faults in self._own(batch)}

        def change(each: Event) -> Event:
            if isinstance(each, StepFinished):
                return oom_correction.with_oom(each, *own[id(each)])
            return oom_correction.with_oom(each, *own[id(each)]) if isinstance(each, JobFinished) else each

        return tuple(map(change, batch))

    def settled_half(self, half: PartialStep) -> PartialStep:
        """Returns a doubtful half-played step likewise."""
        [(_, sandboxes, faults)] = self._own([half])
        return oom_correction.with_oom(half, sandboxes, faults)

    def _own(self, told: Iterable[Event | PartialStep]) -> Iterator[tuple[SandboxReport, int, int]]:
        """Yields what tells of sandboxes, with how many of its sandboxes and faults are an earlier pod's."""
        carried = self._carried
        for each in told:
            if not isinstance(each, StepFinished | JobFinished | PartialStep):
                continue
            same = self.given is not None and not isinstance(each, JobFinished) and each.step == self.given.step
            yield each, carried[0], carried[1] if same else 0
            carried = (0, 0)

    def fresh(self, batch: EventBatch) -> EventBatch:
        """Returns a batch as the ledger is to have it; empty where it has it.

        Raises:
            StoreFault: it is about another job.
        """
        if any(getattr(each, "job", None) != self.attempt.job.id for each in batch):
            raise StoreFault(f"what {self.attempt.name} left is about another job; see who writes to the volume")
        steps = {each.step for each in batch if isinstance(each, StepFinished)}
        if steps & self.steps:
            return ()
        stamped = (self._stamped(each) if isinstance(each, AttemptFailed) else each for each in batch)
        return tuple(each for each in stamped if not isinstance(each, AttemptFailed) or each not in self.failures)

    def placed(self, batch: EventBatch) -> EventBatch:
        """Returns a batch with the node on which its steps were played."""
        return tuple(
            each.model_copy(update={"node": self.node}) if isinstance(each, StepFinished) else each for each in batch
        )

    def took(self, batch: EventBatch) -> None:
        """Notes that a batch is on record."""
        self.read += 1
        for each in batch:
            if isinstance(each, AttemptFailed):
                self.failures.add(self._stamped(each))
                self.last_failure = fault_from_code(each.code, each.message)
            if isinstance(each, StepFinished | JobFinished):
                self._carried = (0, 0)
            if isinstance(each, StepFinished):
                self.steps.add(each.step)
            self.finished |= isinstance(each, JobFinished)

    def log(self, batch: EventBatch, node: str, now: float) -> None:
        """Logs the end of the job, if it is in a batch, as that of one on this machine is logged."""
        bout = self.attempt.bout
        for each in batch:
            if isinstance(each, JobFinished):
                _log.info(
                    "job_finished",
                    contest=bout.contest,
                    round=bout.round,
                    job=each.job,
                    stage=each.stage.value,
                    submission=each.submission,
                    attempt=self.attempt.number,
                    node=node,
                    seconds=round(each.seconds, 3),
                    wall=None if self.made_at is None else round(now - self.made_at, 3),
                )

    def _stamped(self, told: AttemptFailed) -> AttemptFailed:
        """Returns what a driver says of its own tries so that no other attempt's are equal to it."""
        return told.model_copy(update={"message": printable(f"in {self.attempt.name}: {told.message}", _SHOWN)})

    def refused(self, now: float) -> None:
        """Notes that the attempt's node did not start its player."""
        self._refusal = ((self.verdict or self.standing).node, now)

    def failed(self, error: InfrastructureFault) -> EventBatch:
        """Notes that the attempt failed; returns what is to be kept of it, which is nothing the second time."""
        self.last_failure = error
        name = f"{self.attempt.name}: "
        number = self.attempt.number
        if any(each.attempt == number and each.message.startswith(name) for each in self.failures):
            return ()
        text = printable(name + str(error), _SHOWN)
        event = AttemptFailed(job=self.attempt.job.id, attempt=number, code=error.code, message=text)
        self.failures.add(event)
        return (event,)

    @property
    def why(self) -> InfrastructureFault:
        """Why the job cannot go on, where it got nowhere too often."""
        nowhere = f"job {self.attempt.job.id} got nowhere in {self.fruitless} pods one after another"
        if self.last_failure is None:
            return PodUsedUp(f"{nowhere}; run again, and look at its submission's standard error")
        return fault_from_code(self.last_failure.code, f"{nowhere}; at last: {self.last_failure}")


def resume_job(attempt: Attempt, assignment: Assignment, given: PartialStep | None) -> ActiveJob:
    """Returns the flight of an attempt, from what the ledger has of its job: the excerpt in `assignment`."""
    own = [each for each in assignment.events if getattr(each, "job", None) == attempt.job.id]
    steps = {each.step for each in own if isinstance(each, StepFinished)}
    failures = {each for each in own if isinstance(each, AttemptFailed)}
    return ActiveJob(attempt, steps, failures, given)


def fault_from_code(code: str, message: str) -> InfrastructureFault:
    """Returns the fault of ours that has this code, as a driver told it."""
    kind = next((each for each in _with_subclasses(InfrastructureFault) if each.code == code), InfrastructureFault)
    return kind(message)


def _with_subclasses(kind: type[InfrastructureFault]) -> list[type[InfrastructureFault]]:
    return [kind, *(found for each in kind.__subclasses__() for found in _with_subclasses(each))]
