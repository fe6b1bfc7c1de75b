"""All errors that this software raises on purpose, in one tree.

    SparringError
    ├── InfrastructureFault      a fault of ours: tried again, never scored
    │   ├── BackendUnavailable   no engine, or one that cannot do what the policy requires
    │   ├── SandboxLost          the engine lost the sandbox, or refused to start it
    │   │   ├── AmbiguousExit    a player ended, and it is unknown who caused it
    │   │   └── PlayerAbsent     the player's container of this pod never started
    │   ├── PodUsedUp            this pod's only player was started before
    │   ├── JobsParked           some jobs failed at every attempt; all others were played
    │   ├── PodLost              a pod ended before its driver wrote an outcome
    │   │   ├── ImagePullFailed  an image could not be pulled in time
    │   │   ├── Unschedulable    no node had room in time
    │   │   ├── PodRefused       a pod could not be created or started
    │   │   │   └── PlayerRefused  only its player's container could not be started
    │   │   ├── PlayerLost       a player's container was ended from outside
    │   │   └── DriverLost       a driver ended without writing an outcome
    │   ├── ClusterUnavailable   the API server does not answer, or only with temporary errors
    │   ├── ClusterRefused       the API server refuses a request
    │   ├── LeaseLost            another controller may have taken over
    │   ├── ServiceUnavailable   a contest's site gives no answer, or an invalid one
    │   └── StoreFault           the ledger or a blob cannot be read or written
    │       └── Conflict         another orchestrator appended first
    ├── SubmissionFault          a fault of the submission: scored by the rules, never tried again
    │   ├── ProtocolFault        bytes that are not the image protocol
    │   ├── DeadlinePassed       no answer in time
    │   ├── PlayerDied           the player ended before it answered
    │   │   └── OutOfMemory      killed at the memory limit
    │   ├── OutputFlood          more output than was asked for
    │   ├── PlayerReported       the player itself sent a `fault`
    │   ├── NoGradients          a defence offers no gradients, and the rules require them
    │   └── GaveUp               no more sandboxes after too many faults
    ├── Rejected                 cannot be admitted; has all problems
    ├── NotGenuine               a bundle or a receipt failed its verification
    ├── Cancelled                the operator ended the round
    └── UsageError               the operator asked for something impossible
        └── Busy                 another process does it at this moment

Each leaf has a stable `code` with a heading in docs/limits-and-errors.md. A message says what happened, with the limit
and the actual number, and then the likely cause or the remedy. Text that a submission wrote never goes into a message
unescaped: see `orchestrator.domain.text.printable`.
"""

from collections.abc import Sequence
from dataclasses import dataclass


class SparringError(Exception):
    """The root of the tree; never raised itself."""

    code: str = "error"


class InfrastructureFault(SparringError):
    """Something of ours failed. The work is tried again; nothing is scored (rule X1)."""

    code = "infrastructure"


class BackendUnavailable(InfrastructureFault):
    """The backend cannot play on this machine. The message has the remedy."""

    code = "backend-unavailable"


class SandboxLost(InfrastructureFault):
    """The engine did not start a sandbox, or lost one that was running."""

    code = "sandbox-lost"


class AmbiguousExit(SandboxLost):
    """A player's stream ended, and it was not shown that the engine kept running meanwhile.

    The step is tried again, and in the end counts against the submission (see
    `orchestrator.execution.ambiguous_exits`), so that a player that can cause this gains nothing by it.
    """

    code = "ambiguous-end"


class PlayerAbsent(SandboxLost):
    """The player's container did not start in this pod, or ended before the driver sent anything to it.

    Nothing in the pod can change that, so another pod tries again, and not this one.
    """

    code = "player-absent"


class PodUsedUp(InfrastructureFault):
    """This pod's only player was started before, so the rest of the job needs another pod.

    It is no failure, and this pod does not try again: finished steps are kept, and another pod continues the job.
    """

    code = "pod-spent"


class JobsParked(InfrastructureFault):
    """Some jobs failed at every attempt, and all jobs that do not depend on them were played.

    The ledger says which submissions wait and why (`events.JobParked`). Another run tries them again.
    """

    code = "parked"


class PodLost(InfrastructureFault):
    """A pod or its Job was evicted, preempted or deleted, or its node was lost, before its driver wrote an outcome.

    Events that the driver has written are kept; another attempt plays the rest of the job.
    """

    code = "pod-lost"


class ImagePullFailed(PodLost):
    """A node could not pull an image of a pod within the time that pods may wait."""

    code = "image-pull"


class Unschedulable(PodLost):
    """No node had room for a pod within the time that pods may wait."""

    code = "unschedulable"


class PodRefused(PodLost):
    """The cluster refused to create a pod, or a node could not start its containers."""

    code = "pod-refused"


class PlayerRefused(PodRefused):
    """A node's runtime refused to start the player's container, but started the driver's container of the same pod."""

    code = "player-refused"


class PlayerLost(PodLost):
    """A player's container was ended from outside, and not by the kernel at its memory limit; by whom is unknown."""

    code = "player-lost"


class DriverLost(PodLost):
    """A driver ended, or exceeded its Job's deadline, without writing an outcome."""

    code = "driver-lost"


class ClusterUnavailable(InfrastructureFault):
    """The API server did not answer within the time for which requests are repeated."""

    code = "cluster-unavailable"


class ClusterRefused(InfrastructureFault):
    """The API server refused a request, and would refuse it again. `status` is the HTTP status of its answer."""

    code = "cluster-refused"

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class LeaseLost(InfrastructureFault):
    """This controller could not renew its lease in time, so another one may have taken over the round."""

    code = "lease-lost"


class ServiceUnavailable(InfrastructureFault):
    """A contest's site did not answer within the time for which requests are repeated, or gave an invalid answer."""

    code = "service-unavailable"


class StoreFault(InfrastructureFault):
    """The ledger or a blob cannot be read or written."""

    code = "store"


class Conflict(StoreFault):
    """Another orchestrator appended to the ledger first."""

    code = "store-conflict"


class SubmissionFault(SparringError):
    """A submission broke a limit or a rule. It is scored by the rules and never tried again (rule X1)."""

    code = "submission"


class ProtocolFault(SubmissionFault):
    """The player's bytes are not the image protocol; `reason` is one of the words in schemas/protocol.md."""

    code = "protocol"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class DeadlinePassed(SubmissionFault):
    """The player gave no complete answer before the deadline."""

    code = "deadline"


class PlayerDied(SubmissionFault):
    """The player ended before it answered."""

    code = "died"


class OutOfMemory(PlayerDied):
    """The player was killed at its memory limit."""

    code = "out-of-memory"


class OutputFlood(SubmissionFault):
    """The player wrote more than it was asked for."""

    code = "flood"


class PlayerReported(SubmissionFault):
    """The player sent a `fault` message instead of a reply."""

    code = "reported"


class NoGradients(SubmissionFault):
    """A defence's `ready` offers no gradients, in a contest whose rules require them of each defence (rule A12)."""

    code = "no-gradients"


class GaveUp(SubmissionFault):
    """A job's faults exceeded their limits, so the rest of its questions was not asked."""

    code = "gave-up"


class Cancelled(SparringError):
    """The operator ended the round; finished steps are in the ledger."""

    code = "cancelled"


MAX_PROBLEMS = 20
"""The most problems of a submission's files that are listed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: its place, what is wrong, and the remedy."""

    place: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.what}" + (f"; {self.remedy}" if self.remedy else "")


def first_problems(problems: Sequence[Problem], place: str) -> list[Problem]:
    """Returns the first `MAX_PROBLEMS` problems; if there are more, one at `place` counts these."""
    hidden = len(problems) - MAX_PROBLEMS
    more = [Problem(place, f"and {hidden} more problems like these")] if hidden > 0 else []
    return [*problems[:MAX_PROBLEMS], *more]


class Rejected(SparringError):
    """A contest file or a submission cannot be admitted; `problems` has all reasons, not only the first."""

    code = "rejected"

    def __init__(self, subject: str, problems: Sequence[Problem]) -> None:
        self.subject = subject
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"{subject}: {count}", *(f"  {problem}" for problem in self.problems)]))


class NotGenuine(SparringError):
    """A bundle or a receipt failed its verification; `problems` has the first check that failed."""

    code = "not-genuine"

    def __init__(self, place: str, what: str, remedy: str = "") -> None:
        self.problems = (Problem(place, what, remedy),)
        super().__init__(str(self.problems[0]))


class UsageError(SparringError):
    """The operator asked for something that cannot be done; the message says what to do instead."""

    code = "usage"


class Busy(UsageError):
    """Another process holds the lock: it does the same, or writes to the same place. Trying again later may succeed."""
