"""Runs `make.py FOLDER`, which writes a hostile upload, and has our readers read it.

`make.py` is our own code. It and the readers run on this machine, each in a process with limits on memory, file size
and time. With the control removed, `naive.py FOLDER` reads the same files as a careless program would, within the same
limits, and reports its harm.
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from orchestrator.domain.text import printable
from orchestrator.errors import InfrastructureFault
from orchestrator.sandbox_selftest import harm_report
from orchestrator.sandbox_selftest.context import Context
from orchestrator.sandbox_selftest.expectation import Program
from orchestrator.sandbox_selftest.outcome import RunResult

MAX_FILE_BYTES = 64 * 1024**2
"""The longest file that these processes can write."""
MAX_MEMORY_BYTES = 3 * 1024**3
MAX_GROWTH = 512 * 1024**2
"""Bytes by which the memory of our reader may grow; more is harm."""
UPLOAD_KINDS = {"upload.zip": "folder", "upload": "folder", "upload.npz": "npz"}
"""The names that `make.py` may write, each with the kind of dataset that reads it."""
ESCAPED_FILE = "escaped"
"""The name of a file outside the upload's folder, which exists only if the upload wrote or ran something there."""

_READER_SOURCE = """
import json, resource, sys
from pathlib import Path
from orchestrator import plugins
from orchestrator.errors import Rejected
folder, name, kind = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
dataset = plugins.load_plugin("datasets", kind)()
options = dataset.options_type(path=name)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
report = {"refused": [], "read": 0}
try:
    report["read"] = dataset.load_samples(options, folder).pixels.nbytes
except Rejected as error:
    report["refused"] = [[text.replace(f"{folder}/", "") for text in (p.place, p.what)] for p in error.problems]
report["grown"] = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
print(json.dumps(report))
"""
"""Reads one upload as `sparring round run` would, and prints the result."""


def run(program: Program, context: Context, *, removed: bool) -> RunResult:
    """Runs a program of the kind `upload` and returns the result.

    Raises:
        InfrastructureFault: `make.py` or the reader itself failed.
    """
    careless = bool(removed and program.expectation.removed and program.expectation.removed.bypass)
    outer = Path(tempfile.mkdtemp(prefix="upload-", dir=context.workspace))
    try:
        inner = outer / "inner"
        inner.mkdir()
        _run_bounded((str(program.folder / "make.py"), str(inner)), program)
        return _run_naive_reader(program, inner) if careless else _run_own_reader(program, inner)
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _run_own_reader(program: Program, folder: Path) -> RunResult:
    name, kind = next((each for each in UPLOAD_KINDS.items() if (folder / each[0]).exists()), ("", ""))
    if not name:
        raise InfrastructureFault(f"{program.name}/make.py wrote none of {', '.join(UPLOAD_KINDS)}")
    started_at = time.monotonic()
    document = json.loads(_run_bounded(("-c", _READER_SOURCE, str(folder), name, kind), program))
    seconds = time.monotonic() - started_at
    grown = int(document["grown"])
    harms = [f"{grown / 1024**2:.0f} MiB to read it"] if grown > MAX_GROWTH else []
    harms += ["something outside the upload's own place was written"] if _has_escaped(folder) else []
    reasons = [printable(f"{place}: {problem}", 160) for place, problem in document["refused"]]
    harmless = [f"read as {document['read']} bytes of pictures"] if not reasons else reasons[:2]
    return RunResult(
        harm=bool(harms),
        refused=[place for place, _ in document["refused"]],
        seconds=seconds,
        peak_bytes=grown,
        evidence=harms or harmless,
    )


def _run_naive_reader(program: Program, folder: Path) -> RunResult:
    started_at = time.monotonic()
    harm, evidence = harm_report.parse_report(
        _run_bounded((str(program.folder / "naive.py"), str(folder)), program, may_fail=True)
    )
    escaped = _has_escaped(folder)
    return RunResult(
        harm=bool(harm or escaped) if harm is not None or escaped else None,
        seconds=time.monotonic() - started_at,
        evidence=[evidence or ("a file outside the upload's own place was written" if escaped else "no report")],
    )


def _has_escaped(folder: Path) -> bool:
    return (folder.parent / ESCAPED_FILE).exists()


def _run_bounded(arguments: tuple[str, ...], program: Program, *, may_fail: bool = False) -> bytes:
    """Runs this Python interpreter with limits; returns its stdout."""
    seconds = program.expectation.seconds
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
            preexec_fn=_set_bounds,
        )
    except subprocess.TimeoutExpired as error:
        if may_fail:
            return b'{"harm": true, "evidence": "it did not come to an end"}'
        raise InfrastructureFault(f"{program.name}: reading it did not end within {seconds:g} s") from error
    if done.returncode and not may_fail:
        raise InfrastructureFault(f"{program.name}: {printable(done.stderr[-600:])}")
    return done.stdout


def _set_bounds() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
