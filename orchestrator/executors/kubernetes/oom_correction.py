"""A player whose container ended without a word: whose doing that was is read from the pod's status.

Where all of a container goes at once, its first process says nothing more, and the driver notes an end that it cannot
attribute (`lost`). If the container's status says `OOMKilled`, the kernel ended it at its memory limit: it was out of
memory, as on every other engine. Else somebody on the node ended it, which no player can bring about, so what was
played with it is ours to play again (rule X1). A pod starts each of its players once, so what an earlier pod left, and
this one only carried on, is not touched.

In a query job a pod has two players, and the status of a container says of its own player alone: `of_attack` is whether
the attack is meant, whose sandboxes and faults carry its name.
"""

from typing import TypeVar

from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.events import FaultRecord, JobFinished, SandboxRecord, StepFinished
from orchestrator.domain.exit_reasons import ExitReason
from orchestrator.errors import OutOfMemory, PlayerDied

OOM_MESSAGE = "the player was killed at its memory limit"
"""What execution says of it."""
_Report = TypeVar("_Report", StepFinished, JobFinished, PartialStep)


def has_ambiguous_exit(sandboxes: list[SandboxRecord], inherited: int, *, of_attack: bool) -> bool:
    """Whether one of a pod's own sandboxes ended without a word; the first `inherited` are not its own."""
    return any(_is_unattributed(each, of_attack=of_attack) for each in sandboxes[inherited:])


def is_charged_to_player(
    report: StepFinished | JobFinished | PartialStep,
    inherited_sandboxes: int,
    inherited_faults: int,
    *,
    of_attack: bool,
) -> bool:
    """Whether such an end is held against the player: one of the pod's own faults is a death of its.

    Args:
        report: what the driver handed out.
        inherited_sandboxes: how many of its sandboxes are an earlier pod's.
        inherited_faults: how many of its faults are.
        of_attack: which player is meant.
    """
    if isinstance(report, JobFinished):
        return False
    if not has_ambiguous_exit(report.sandboxes, inherited_sandboxes, of_attack=of_attack):
        return False
    return any(_is_death(fault, of_attack=of_attack) for fault in report.faults[inherited_faults:])


def with_oom(report: _Report, inherited_sandboxes: int, inherited_faults: int, *, of_attack: bool) -> _Report:
    """Returns it with the pod's own end without a word as out of memory, and the death that it was as well.

    Args:
        report: what the driver handed out.
        inherited_sandboxes: how many of its sandboxes are an earlier pod's.
        inherited_faults: how many of its faults are.
        of_attack: which player is meant.
    """
    sandboxes = [
        _as_oom_record(sandbox)
        if at >= inherited_sandboxes and _is_unattributed(sandbox, of_attack=of_attack)
        else sandbox
        for at, sandbox in enumerate(report.sandboxes)
    ]
    update: dict[str, object] = {"sandboxes": sandboxes}
    if not isinstance(report, JobFinished):
        update["faults"] = _faults_with_oom(report.faults, inherited_faults, of_attack=of_attack)
    copy: _Report = report.model_copy(update=update)
    return copy


def _is_unattributed(sandbox: SandboxRecord, *, of_attack: bool) -> bool:
    return sandbox.ending == ExitReason.LOST and bool(sandbox.submission) is of_attack


def _is_death(fault: FaultRecord, *, of_attack: bool) -> bool:
    return fault.code == PlayerDied.code and bool(fault.submission) is of_attack


def _as_oom_record(sandbox: SandboxRecord) -> SandboxRecord:
    reason = ExitReason.OUT_OF_MEMORY
    return sandbox.model_copy(update={"ending": reason.value, "reason": reason})


def _faults_with_oom(faults: list[FaultRecord], inherited: int, *, of_attack: bool) -> list[FaultRecord]:
    positions = [at for at, fault in enumerate(faults) if _is_death(fault, of_attack=of_attack) and at >= inherited]
    if not positions:
        return faults
    changed = faults[positions[-1]].model_copy(update={"code": OutOfMemory.code, "message": OOM_MESSAGE})
    return [*faults[: positions[-1]], changed, *faults[positions[-1] + 1 :]]
