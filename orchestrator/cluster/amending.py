"""A player whose container ended without a word: whose doing that was is read from the pod's status.

Where all of a container goes at once, its first process says nothing more, and the driver notes an end that it cannot
attribute (`lost`). If the container's status says `OOMKilled`, the kernel ended it at its memory limit: it was out of
memory, as on every other engine. Else somebody on the node ended it, which no player can bring about, so what was
played with it is ours to play again (rule X1). A pod has one player, so what an earlier pod left, and this one only
carried on, is not touched.
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
    """Whether one of a pod's own sandboxes ended without a word; the first `carried` are not its own."""
    return any(_unseen(each) for each in sandboxes[carried:])


def blamed(told: StepFinished | JobFinished | HalfStep, carried: int, faults: int) -> bool:
    """Whether such an end is held against the player: one of the pod's own faults is a death.

    Args:
        told: what the driver handed out.
        carried: how many of its sandboxes are an earlier pod's.
        faults: how many of its faults are.
    """
    if isinstance(told, JobFinished) or not doubtful(told.sandboxes, carried):
        return False
    return any(fault.code == PlayerDied.code for fault in told.faults[faults:])


def amended(told: _Told, carried: int, faults: int) -> _Told:
    """Returns it with the pod's own end without a word as out of memory, and the death that it was as well.

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
    return sandbox.ending == ExitReason.LOST


def _killed(sandbox: SandboxRecord) -> SandboxRecord:
    reason = ExitReason.OUT_OF_MEMORY
    return sandbox.model_copy(update={"ending": reason.value, "reason": reason})


def _out_of_memory(faults: list[FaultRecord], carried: int) -> list[FaultRecord]:
    found = [at for at, fault in enumerate(faults) if fault.code == PlayerDied.code and at >= carried]
    if not found:
        return faults
    changed = faults[found[-1]].model_copy(update={"code": OutOfMemory.code, "message": KILLED})
    return [*faults[: found[-1]], changed, *faults[found[-1] + 1 :]]
