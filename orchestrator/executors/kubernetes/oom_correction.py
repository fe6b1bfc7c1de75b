"""Corrects a driver's report of a player whose container ended without a report, from the pod's status.

If all processes of a container are killed at once, its first process reports nothing, and the driver records an exit
whose cause it cannot see (`lost`). If the container's status says `OOMKilled`, the kernel killed it at its memory
limit: it was out of memory, as on every other engine. Else something on the node killed it, which no player can cause,
so what was played with it is played again as our fault (rule X1). A pod starts each of its players once, so records
that this pod only took over from an earlier one are not changed.

In a query job a pod has two players, and a container's status is about its own player only: `of_attack` says whether
the attack is meant, whose sandboxes and faults have its name.
"""

from typing import TypeVar

from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.events import FaultRecord, JobFinished, SandboxRecord, StepFinished
from orchestrator.domain.exit_reasons import ExitReason
from orchestrator.errors import OutOfMemory, PlayerDied

OOM_MESSAGE = "the player was killed at its memory limit"
"""The message of such a fault, as in execution."""
_Report = TypeVar("_Report", StepFinished, JobFinished, PartialStep)


def has_ambiguous_exit(sandboxes: list[SandboxRecord], inherited: int, *, of_attack: bool) -> bool:
    """Returns whether one of a pod's own sandboxes ended without a report; the first `inherited` are not its own."""
    return any(_is_unattributed(each, of_attack=of_attack) for each in sandboxes[inherited:])


def is_charged_to_player(
    report: StepFinished | JobFinished | PartialStep,
    inherited_sandboxes: int,
    inherited_faults: int,
    *,
    of_attack: bool,
) -> bool:
    """Returns whether such an exit counts against the player: one of the pod's own faults is the player's death.

    Args:
        report: the driver's report.
        inherited_sandboxes: how many of its sandboxes are an earlier pod's.
        inherited_faults: how many of its faults are an earlier pod's.
        of_attack: whether the attack is meant.
    """
    if isinstance(report, JobFinished):
        return False
    if not has_ambiguous_exit(report.sandboxes, inherited_sandboxes, of_attack=of_attack):
        return False
    return any(_is_death(fault, of_attack=of_attack) for fault in report.faults[inherited_faults:])


def with_oom(report: _Report, inherited_sandboxes: int, inherited_faults: int, *, of_attack: bool) -> _Report:
    """Returns the report with the pod's own unexplained exit, and the death recorded for it, as out of memory.

    Args:
        report: the driver's report.
        inherited_sandboxes: how many of its sandboxes are an earlier pod's.
        inherited_faults: how many of its faults are an earlier pod's.
        of_attack: whether the attack is meant.
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
