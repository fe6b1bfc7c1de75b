"""Runs `program.py` in one or two sandboxes, and reads its report.

A program ends its report with one JSON line, `{"harm": true, "evidence": "..."}`. A program that was killed reports
nothing, and is judged by how it ended and by the kernel's counters.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.text import printable
from orchestrator.errors import UsageError
from orchestrator.sandbox_selftest import harm_report
from orchestrator.sandbox_selftest.canaries import HostCanaries
from orchestrator.sandbox_selftest.context import Context
from orchestrator.sandbox_selftest.expectation import Kind, Program, Weakness
from orchestrator.sandbox_selftest.outcome import RunResult
from orchestrator.sandboxes.base import Exit, Sandbox, SandboxSpec, StreamTail

PRELUDE = "_report.py"
"""A module next to the programs, from which each may import."""
ROLES = {Kind.SANDBOX: ("only",), Kind.PAIR: ("first", "second")}
_MAX_SOURCE_BYTES = 120 * 1024
"""The kernel accepts at most 128 KiB for one argument."""
_MAX_OUTPUT_BYTES = 64 * 1024
_START_SIGNAL = b"\n"
"""The input that a program waits for, so that it changes nothing before the backend has verified the sandbox."""
_SHOWN = 300
_REUSE_SOURCE = """
import os, subprocess, sys
_, token, source = sys.argv[1:]
os.read(0, 1)
for role in ("first", "second"):
    subprocess.run([sys.executable, "-I", "-S", "-c", source, role, token], input=b"\\n")
"""
"""Runs two players one after the other in one sandbox."""


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """The report of one sandbox, how it ended, and how long it ran."""

    harm: bool | None
    evidence: str
    exit_status: Exit
    seconds: float


def run(program: Program, context: Context, *, removed: bool) -> RunResult:
    """Runs a program of the kind `sandbox` or `pair` and returns the result.

    Raises:
        SparringError: the backend could not run it, so there is no result.
    """
    expectation = program.expectation
    source = _program_source(program.folder)
    policy = context.policy_for(program, removed=removed)
    with HostCanaries() as canaries:
        runs = [
            partial(_run_in_sandbox, context, program, policy, (source, role, canaries.token))
            for role in ROLES[expectation.kind]
        ]
        if removed and expectation.removed and expectation.removed.weakness is Weakness.REUSE:
            runs = [partial(_run_in_sandbox, context, program, policy, (_REUSE_SOURCE, "both", canaries.token, source))]
        if expectation.concurrent:
            with ThreadPoolExecutor(len(runs)) as pool:
                reports = [future.result() for future in [pool.submit(each) for each in runs]]
        else:
            reports = [each() for each in runs]
        visits = canaries.visits
    return _run_result(reports, visits)


def _program_source(folder: Path) -> str:
    """Returns the prelude followed by the program, as one argument for `python3 -c`."""
    prelude = (folder.parent / PRELUDE).read_text("utf-8")
    program = (folder / "program.py").read_text("utf-8")
    source = f"{prelude}\nimport sys\nsys.modules['_report'] = sys.modules['__main__']\n{program}"
    if len(source.encode()) > _MAX_SOURCE_BYTES:
        raise UsageError(f"{folder} has {len(source.encode())} bytes with its prelude, at most {_MAX_SOURCE_BYTES}")
    return source


def _run_in_sandbox(
    context: Context, program: Program, policy: SandboxPolicy, arguments: tuple[str, ...]
) -> SandboxReport:
    image = replace(context.image, command=("python3", "-I", "-S", "-c", *arguments))
    sandbox = context.backend.start(
        SandboxSpec(image, policy, context.run, f"{program.name}-{arguments[1]}", context.device)
    )
    started_at = time.monotonic()
    try:
        sandbox.send(_START_SIGNAL, started_at + program.expectation.seconds)
        output = _read_until_end(sandbox, started_at + program.expectation.seconds)
        seconds = time.monotonic() - started_at
    finally:
        end = sandbox.stop()
    harm, evidence = harm_report.parse_report(output)
    return SandboxReport(harm, evidence, end, seconds)


def _read_until_end(sandbox: Sandbox, deadline: float) -> bytes:
    """Returns the last bytes that a sandbox wrote before its end or the deadline."""
    tail = StreamTail(_MAX_OUTPUT_BYTES)
    while data := sandbox.receive(deadline):
        tail.add(data)
    return bytes(tail)


def _run_result(sandbox_reports: Sequence[SandboxReport], visits: int) -> RunResult:
    harms = [each.harm for each in sandbox_reports]
    harm = True if True in harms or visits else False if False in harms else None
    last = sandbox_reports[-1]
    evidence = [each.evidence for each in sandbox_reports if each.evidence]
    if last.harm is None:
        error_lines = last.exit_status.stderr.strip().splitlines()
        evidence.append("no report" + (f", stderr {printable(error_lines[-1], _SHOWN)}" if error_lines else ""))
    if visits:
        evidence.append(f"visits to the host's services: {visits}")
    peaks = [each.exit_status.peak_bytes for each in sandbox_reports if each.exit_status.peak_bytes is not None]
    peak = max(peaks, default=None)
    if peak is not None:
        evidence.append(f"peak {peak / 1024**2:.0f} MiB")
    used = last.exit_status.cpu_seconds
    return RunResult(
        harm=harm,
        ending=last.exit_status.ending,
        seconds=max(each.seconds for each in sandbox_reports),
        peak_bytes=peak,
        cpu_share=None if used is None else used / max(last.exit_status.wall_seconds, 0.1),
        evidence=evidence,
    )
