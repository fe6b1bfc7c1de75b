"""Runs programs of the zoo on a backend and judges each: what `sparring sandbox check` shows."""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from orchestrator.backends.base import Backend, Check, CheckStatus, Image, Source
from orchestrator.domain.policy import Runtime
from orchestrator.errors import BackendUnavailable, Cancelled, SparringError, UsageError
from orchestrator.zoo import endings, images, protocol, sandbox, uploads
from orchestrator.zoo.context import Context
from orchestrator.zoo.expectation import Kind, Program
from orchestrator.zoo.outcome import Observed, Outcome, judge, not_run, not_shown

IMAGE = "sparring/base:cpu"
"""What programs run in."""
UNISOLATED = "process"
NO_WALL = "the process backend has no such wall"
RUNNERS: Mapping[Kind, Callable[..., Observed]] = {
    Kind.SANDBOX: sandbox.run,
    Kind.PAIR: sandbox.run,
    Kind.PROTOCOL: protocol.run,
    Kind.IMAGE: images.run,
    Kind.UPLOAD: uploads.run,
    Kind.ENDING: endings.run,
}
"""`run(program, context, *, removed)` of each kind."""
NEED_WALLS = frozenset({Kind.SANDBOX, Kind.PAIR, Kind.IMAGE, Kind.ENDING})
"""What would do its harm to this machine, were it run without a wall."""


def prepare(backend: Backend, runtime: Runtime, workspace: Path) -> tuple[Context, list[Check]]:
    """Returns where programs will be run, and what the backend found out about this machine.

    Raises:
        BackendUnavailable: the backend cannot play here, or lacks that runtime.
        Rejected: the image that programs run in is not there.
    """
    backend.check()
    facts = backend.examine()
    if backend.name == UNISOLATED:
        return Context(backend, Image(digest="", name="this machine", folder=workspace), runtime, workspace), facts
    for fact in facts:
        if fact.name == f"{backend.name}: {runtime.value}" and fact.status in (CheckStatus.ABSENT, CheckStatus.FAIL):
            raise BackendUnavailable(f"there is no runtime {runtime.value} here: {fact.detail}; {fact.remedy}")
    return Context(backend, backend.admit(Source(image=IMAGE, trusted=True)), runtime, workspace), facts


def choose(programs: Sequence[Program], names: Sequence[str]) -> list[Program]:
    """Returns the programs with such a name, or of such a family; all when no name is given. Raises UsageError."""
    known = {word for program in programs for word in (program.name, program.expectation.family.value)}
    unknown = sorted(set(names) - known)
    if unknown:
        raise UsageError(f"no program or family {', '.join(unknown)} in the zoo; leave --only out to see all")
    wanted = set(names) or known
    return [program for program in programs if wanted & {program.name, program.expectation.family.value}]


def runs(programs: Sequence[Program], *, prove: bool) -> list[tuple[Program, bool]]:
    """Returns what will be run, in order; the flag is set where the control is removed."""
    return [(program, removed) for program in programs for removed in ((False, True) if prove else (False,))]


def check(programs: Sequence[Program], context: Context, *, prove: bool) -> Iterator[Outcome]:
    """Runs each program, with `prove` a second time with its control removed; yields a line for each run."""
    for program, removed in runs(programs, prove=prove):
        yield outcome(program, context, removed=removed)


def outcome(program: Program, context: Context, *, removed: bool) -> Outcome:
    """Returns what became of one program. A run that fails shows nothing, and counts against us."""
    expectation = program.expectation
    if context.backend.name == UNISOLATED and expectation.kind in NEED_WALLS:
        return not_run(program, NO_WALL, removed=removed)
    if removed and expectation.removed is None:
        return not_run(program, f"exception: {expectation.exception}", removed=removed)
    excuse = expectation.known_failures.get(context.runtime, "")
    try:
        seen = RUNNERS[expectation.kind](program, context, removed=removed)
    except (Cancelled, UsageError):
        raise
    except (SparringError, subprocess.SubprocessError) as error:
        return not_shown(program, error, removed=removed)
    return judge(program, seen, removed=removed, excuse=excuse)
