"""A player that the kernel ended together with its container: what the driver could not see, the pod's status tells.

Where all of a container goes at once, its first process says nothing more, and the driver notes a crash with a code
that nobody saw. If the container's status says `OOMKilled`, that crash was out of memory, as on every other engine. A
pod has one player, so what an earlier pod left, and this one only carried on, is not touched.
"""

from typing import TypeVar

from orchestrator.domain.assignment import HalfStep
from orchestrator.domain.endings import ExitReason
from orchestrator.domain.events import FaultRecord, JobFinished, SandboxRecord, StepFinished
from orchestrator.errors import OutOfMemory, PlayerDied

KILLED = "the player was killed at its memory limit"
"""What the arena says of it."""
_Told = TypeVar("_Told", StepFinished, JobFinished, HalfStep)


def doubtful(sandboxes: list[SandboxRecord], carried: int) -> bool:
    """Whether one of a pod's own sandboxes crashed with a code that nobody saw; the first `carried` are not its own."""
    return any(_unseen(each) for each in sandboxes[carried:])


def amended(told: _Told, carried: int, faults: int) -> _Told:
    """Returns it with the pod's own unseen crash as out of memory, and the death that it was as well.

    Args:
        told: what the driver handed out.
        carried: how many of its sandboxes are an earlier pod's.
        faults: how many of its faults are.
    """
    ended = [_killed(each) if at >= carried and _unseen(each) else each for at, each in enumerate(told.sandboxes)]
    update: dict[str, object] = {"sandboxes": ended}
    if not isinstance(told, JobFinished):
        update["faults"] = _out_of_memory(told.faults, faults)
    copy: _Told = told.model_copy(update=update)
    return copy


def _unseen(sandbox: SandboxRecord) -> bool:
    return sandbox.ending == ExitReason.CRASHED and sandbox.code is None


def _killed(sandbox: SandboxRecord) -> SandboxRecord:
    reason = ExitReason.OUT_OF_MEMORY
    return sandbox.model_copy(update={"ending": reason.value, "reason": reason})


def _out_of_memory(faults: list[FaultRecord], carried: int) -> list[FaultRecord]:
    found = [at for at, fault in enumerate(faults) if fault.code == PlayerDied.code and at >= carried]
    if not found:
        return faults
    changed = faults[found[-1]].model_copy(update={"code": OutOfMemory.code, "message": KILLED})
    return [*faults[: found[-1]], changed, *faults[found[-1] + 1 :]]
