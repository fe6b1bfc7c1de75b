"""Runs hostile programs on a backend and judges each: what `sparring sandbox check` shows."""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from orchestrator.domain.policy import Runtime
from orchestrator.errors import BackendUnavailable, Cancelled, SparringError, UsageError
from orchestrator.sandbox_selftest import endings, images, protocol, sandbox, uploads
from orchestrator.sandbox_selftest.context import Context
from orchestrator.sandbox_selftest.expectation import Kind, Program
from orchestrator.sandbox_selftest.outcome import ProgramOutcome, RunResult, failed_outcome, judge_run, skipped_outcome
from orchestrator.sandboxes.base import Backend, Check, CheckStatus, Image, ImageSource

BASE_IMAGE = "sparring/base:cpu"
"""What programs run in."""
UNISOLATED_BACKEND = "process"
NOT_ISOLATED = "the process backend has no such wall"
RUNNERS: Mapping[Kind, Callable[..., RunResult]] = {
    Kind.SANDBOX: sandbox.run,
    Kind.PAIR: sandbox.run,
    Kind.PROTOCOL: protocol.run,
    Kind.IMAGE: images.run,
    Kind.UPLOAD: uploads.run,
    Kind.ENDING: endings.run,
}
"""`run(program, context, *, removed)` of each kind."""
NEED_ISOLATION = frozenset({Kind.SANDBOX, Kind.PAIR, Kind.IMAGE, Kind.ENDING})
"""What would do its harm to this machine, were it run without a wall."""


def prepare_context(
    backend: Backend, runtime: Runtime, workspace: Path, device: str | None = None
) -> tuple[Context, list[Check]]:
    """Returns where programs will be run, and what the backend found out about this machine.

    `device` is the UUID of the GPU that every program gets; None for none.

    Raises:
        BackendUnavailable: the backend cannot play here, or lacks that runtime.
        Rejected: the image that programs run in is not there.
    """
    backend.require_available()
    facts = backend.diagnose()
    if backend.name == UNISOLATED_BACKEND:
        return Context(backend, Image(digest="", name="this machine", folder=workspace), runtime, workspace), facts
    for fact in facts:
        if fact.name == f"{backend.name}: {runtime.value}" and fact.status in (CheckStatus.ABSENT, CheckStatus.FAIL):
            raise BackendUnavailable(f"there is no runtime {runtime.value} here: {fact.detail}; {fact.remedy}")
    image = backend.admit(ImageSource(image=BASE_IMAGE, trusted=True))
    return Context(backend, image, runtime, workspace, device=device), facts


def select_programs(programs: Sequence[Program], names: Sequence[str]) -> list[Program]:
    """Returns the programs with such a name, or of such a family; all when no name is given. Raises UsageError."""
    known = {word for program in programs for word in (program.name, program.expectation.family.value)}
    unknown = sorted(set(names) - known)
    if unknown:
        raise UsageError(
            f"no program or family {', '.join(unknown)} among the hostile programs; leave --only out to run all"
        )
    selection = set(names) or known
    return [program for program in programs if selection & {program.name, program.expectation.family.value}]


def plan_runs(programs: Sequence[Program], *, prove: bool) -> list[tuple[Program, bool]]:
    """Returns what will be run, in order; the flag is set where the control is removed."""
    return [(program, removed) for program in programs for removed in ((False, True) if prove else (False,))]


def run_programs(programs: Sequence[Program], context: Context, *, prove: bool) -> Iterator[ProgramOutcome]:
    """Runs each program, with `prove` a second time with its control removed; yields a line for each run."""
    for program, removed in plan_runs(programs, prove=prove):
        yield run_program(program, context, removed=removed)


def run_program(program: Program, context: Context, *, removed: bool) -> ProgramOutcome:
    """Returns what became of one program. A run that fails shows nothing, and counts against us."""
    expectation = program.expectation
    if context.backend.name == UNISOLATED_BACKEND and expectation.kind in NEED_ISOLATION:
        return skipped_outcome(program, NOT_ISOLATED, removed=removed)
    if removed and expectation.removed is None:
        return skipped_outcome(program, f"exception: {expectation.exception}", removed=removed)
    if removed and (reason := expectation.not_removable.get(context.backend.name)):
        return skipped_outcome(program, f"exception: {reason}", removed=removed)
    excuse = expectation.known_failures.get(context.runtime, "")
    try:
        seen = RUNNERS[expectation.kind](program, context, removed=removed)
    except (Cancelled, UsageError):
        raise
    except (SparringError, subprocess.SubprocessError) as error:
        return failed_outcome(program, error, removed=removed)
    return judge_run(program, seen, removed=removed, excuse=excuse)
