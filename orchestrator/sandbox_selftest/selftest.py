"""Runs hostile programs on a backend and gives a verdict on each, for `sparring sandbox check`."""

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
"""The image in which programs run."""
UNISOLATED_BACKEND = "process"
NOT_ISOLATED = "the process backend does not isolate"
RUNNERS: Mapping[Kind, Callable[..., RunResult]] = {
    Kind.SANDBOX: sandbox.run,
    Kind.PAIR: sandbox.run,
    Kind.PROTOCOL: protocol.run,
    Kind.IMAGE: images.run,
    Kind.UPLOAD: uploads.run,
    Kind.ENDING: endings.run,
}
"""The function `run(program, context, *, removed)` of each kind."""
NEED_ISOLATION = frozenset({Kind.SANDBOX, Kind.PAIR, Kind.IMAGE, Kind.ENDING})
"""The kinds of programs that would harm this machine if they ran without isolation."""


def prepare_context(
    backend: Backend, runtime: Runtime, workspace: Path, device: str | None = None
) -> tuple[Context, list[Check]]:
    """Returns the context of a check, and the backend's checks of this machine.

    `device` is the UUID of the GPU that every program gets; None for none.

    Raises:
        BackendUnavailable: the backend cannot run players here, or lacks that runtime.
        Rejected: the image `BASE_IMAGE` is missing.
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
    """Returns the programs with these names or of these families, all without `names`. Raises UsageError."""
    known = {name for program in programs for name in (program.name, program.expectation.family.value)}
    unknown = sorted(set(names) - known)
    if unknown:
        raise UsageError(
            f"no program or family {', '.join(unknown)} among the hostile programs; leave --only out to run all"
        )
    selection = set(names) or known
    return [program for program in programs if selection & {program.name, program.expectation.family.value}]


def plan_runs(programs: Sequence[Program], *, prove: bool) -> list[tuple[Program, bool]]:
    """Returns the runs in order: each a program and whether its control is removed."""
    return [(program, removed) for program in programs for removed in ((False, True) if prove else (False,))]


def run_programs(programs: Sequence[Program], context: Context, *, prove: bool) -> Iterator[ProgramOutcome]:
    """Runs each program, if `prove` a second time without its control; yields the outcome of each run."""
    for program, removed in plan_runs(programs, prove=prove):
        yield run_program(program, context, removed=removed)


def run_program(program: Program, context: Context, *, removed: bool) -> ProgramOutcome:
    """Runs one program and returns the outcome. A run that ends with an error counts as a failure."""
    expectation = program.expectation
    if context.backend.name == UNISOLATED_BACKEND and expectation.kind in NEED_ISOLATION:
        return skipped_outcome(program, NOT_ISOLATED, removed=removed)
    if removed and expectation.removed is None:
        return skipped_outcome(program, f"exception: {expectation.exception}", removed=removed)
    if removed and (reason := expectation.not_removable.get(context.backend.name)):
        return skipped_outcome(program, f"exception: {reason}", removed=removed)
    excuse = expectation.known_failures.get(context.runtime, "")
    try:
        result = RUNNERS[expectation.kind](program, context, removed=removed)
    except (Cancelled, UsageError):
        raise
    except (SparringError, subprocess.SubprocessError) as error:
        return failed_outcome(program, error, removed=removed)
    return judge_run(program, result, removed=removed, excuse=excuse)
