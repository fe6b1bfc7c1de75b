"""Runs `program.py`, stops it while it runs, and looks for processes that survived.

The program gets a random marker as an argument, which its children inherit, and prints `up` after its preparation.
Harm is: a process with that marker in its command line survives the stop, or runs although the engine reports the
sandbox as ended; or stopping takes longer than `MAX_STOP_SECONDS`. With the control removed, the sandbox is stopped as
a careless orchestrator would do it, or runs under a weaker policy.
"""

import secrets
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from orchestrator.errors import InfrastructureFault
from orchestrator.sandbox_selftest import docker_cli, harm_report
from orchestrator.sandbox_selftest.context import Context
from orchestrator.sandbox_selftest.expectation import Program, Weakness
from orchestrator.sandbox_selftest.outcome import RunResult
from orchestrator.sandboxes.base import Image, ImageSource, Sandbox, SandboxSpec

MAX_STOP_SECONDS = 8.0
"""Seconds that stopping a sandbox may take."""
READY_OUTPUT = b"up"
_READY_SECONDS = 60.0
_STUCK_SECONDS = 20.0
_STUCK_POLL_SECONDS = 0.3
_EXIT_SECONDS = 2.0
_KILL_SECONDS = 4.0
_GHOST_SECONDS = 3.0

_CARELESS_SOURCE = """
import json, os, signal, subprocess, sys, time
how, marker, source = sys.argv[1:]
command = [sys.executable, "-I", "-S", "-c", source, marker]
child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
child.stdout.read(2)
if how == "terminate":
    child.terminate()
elif how == "process":
    child.kill()
else:
    os.killpg(child.pid, signal.SIGKILL)
time.sleep(1)
alive = []
for number in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{number}/cmdline", "rb") as file:
            arguments = file.read().split(b"\\0")
    except OSError:
        continue
    if marker.encode() in arguments and int(number) not in (os.getpid(), os.getppid()):
        alive.append(int(number))
evidence = f"{len(alive)} of its processes outlive an end by {how}"
print(json.dumps({"harm": bool(alive), "evidence": evidence}), flush=True)
"""
"""A careless orchestrator that relies on one signal. It runs in the sandbox with the player, which limits the harm."""


def run(program: Program, context: Context, *, removed: bool) -> RunResult:
    """Runs a program of the kind `ending` and returns the result.

    Raises:
        SparringError: the backend could not run it, so there is no result.
    """
    weakness = program.expectation.removed.weakness if removed and program.expectation.removed else None
    marker = f"program{secrets.token_hex(8)}"
    source = (program.folder / "program.py").read_text("utf-8")
    if weakness in (Weakness.TERMINATE, Weakness.PROCESS, Weakness.GROUP):
        image = _program_image(context, program, _CARELESS_SOURCE, (str(weakness), marker, source))
    else:
        image = _program_image(context, program, source, (marker,))
    job = f"{program.name}-{'removed' if removed else 'contained'}"
    spec = SandboxSpec(image, context.policy_for(program, removed=removed), context.run, job, context.device)
    sandbox = context.backend.start(spec)
    try:
        if weakness in (Weakness.TERMINATE, Weakness.PROCESS, Weakness.GROUP):
            return _read_careless_report(sandbox, program.expectation.seconds)
        return _stop_and_inspect(sandbox, context, spec, marker, unread=weakness is Weakness.UNREAD)
    finally:
        sandbox.stop()


def _stop_and_inspect(sandbox: Sandbox, context: Context, spec: SandboxSpec, marker: str, *, unread: bool) -> RunResult:
    """Stops a running program, and looks for processes that survived."""
    evidence = []
    stream_ended = _wait_until_ready(sandbox)
    if ghosts := 0 if unread else _count_ghosts(context, spec.job, marker, stream_ended=stream_ended):
        evidence.append(f"{ghosts} of its processes live on while its sandbox is taken for ended")
    if unread and (seconds := _blocked_kill_seconds(context, spec.job, marker)):
        evidence.append(f"the engine did not answer a kill within {seconds:.0f} s")
    started_at = time.monotonic()
    end = sandbox.stop()
    seconds = time.monotonic() - started_at
    if seconds > MAX_STOP_SECONDS:
        evidence.append(f"ending it took {seconds:.1f} s")
    if survivors := _count_survivors(marker):
        evidence.append(f"{survivors} of its processes outlive it")
    return RunResult(
        harm=bool(evidence),
        ending=end.ending,
        seconds=seconds,
        peak_bytes=end.peak_bytes,
        evidence=evidence or [f"nothing of it is left; ending it took {seconds:.1f} s"],
    )


def _wait_until_ready(sandbox: Sandbox) -> bool:
    """Waits for `up`, and another 0.5 s; returns whether the sandbox's stream has ended by then.

    Raises:
        InfrastructureFault: the program did not print `up` in time, so there is no result.
    """
    output = b""
    deadline = time.monotonic() + _READY_SECONDS
    while READY_OUTPUT not in output:
        data = sandbox.receive(deadline)
        if data == b"":
            return True
        if data is None:
            raise InfrastructureFault(f"the program did not print `up` within {_READY_SECONDS:g} s")
        output += data[: len(READY_OUTPUT)]
    deadline = time.monotonic() + 0.5
    while (data := sandbox.receive(deadline)) and time.monotonic() < deadline:
        pass
    return data == b""


def _count_ghosts(context: Context, job: str, marker: str, *, stream_ended: bool) -> int:
    """Returns how many processes run although the engine, or the end of the stream, indicates that all have ended."""
    if stream_ended:
        time.sleep(0.5)
        return len(_find_processes(marker))
    deadline = time.monotonic() + _GHOST_SECONDS
    while context.image.folder is None and time.monotonic() < deadline:
        running = [docker_cli.is_running(container) for container in docker_cli.list_containers(context, job)]
        if running and not any(running):
            return len(_find_processes(marker))
        time.sleep(0.2)
    return 0


def _read_careless_report(sandbox: Sandbox, seconds: float) -> RunResult:
    """Returns the report of the careless orchestrator in the sandbox."""
    output = b""
    started_at = time.monotonic()
    while data := sandbox.receive(started_at + seconds):
        output = (output + data)[-4096:]
        if output.endswith(b"\n"):
            break
    harm, evidence = harm_report.parse_report(output)
    return RunResult(harm=harm, seconds=time.monotonic() - started_at, evidence=[evidence] if evidence else [])


def _blocked_kill_seconds(context: Context, job: str, marker: str) -> float:
    """Has the engine kill a container whose output is not read; returns for how many seconds it hung, 0 if it did not.

    The timeout is several times what the engine takes for another request, so that a busy machine is not mistaken for a
    hanging engine.
    """
    _wait_until_stuck(marker)
    started_at = time.monotonic()
    docker_cli.run_docker("version")
    timeout = max(_KILL_SECONDS, 4 * (time.monotonic() - started_at))
    for container in docker_cli.list_containers(context, job):
        try:
            docker_cli.run_docker("kill", container, seconds=timeout)
            docker_cli.run_docker("inspect", container, seconds=timeout)
        except subprocess.TimeoutExpired:
            return timeout
    return 0.0


def _wait_until_stuck(marker: str) -> None:
    """Waits until the program blocks in a write, because all buffers behind its stdout are full.

    Then the bytes that it wrote no longer increase, and all its processes sleep. If its processes are not visible
    (gVisor), the function waits for `_STUCK_SECONDS`.
    """
    until = time.monotonic() + _STUCK_SECONDS
    before = None
    while time.monotonic() < until:
        written = _bytes_written(marker)
        if written is not None and written == before:
            return
        before = written
        time.sleep(_STUCK_POLL_SECONDS)


def _bytes_written(marker: str) -> int | None:
    """Returns the bytes that the processes with a marker wrote; None if one does not sleep, or none is visible."""
    total = 0
    for pid in _find_processes(marker):
        try:
            state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
            counted = Path(f"/proc/{pid}/io").read_text("ascii")
        except OSError:
            return None
        if state != "S":
            return None
        total += next(int(line.split()[1]) for line in counted.splitlines() if line.startswith("wchar:"))
    return total or None


def _program_image(context: Context, program: Program, source: str, arguments: tuple[str, ...]) -> Image:
    if context.image.folder is None:
        return replace(context.image, command=("python3", "-I", "-S", "-c", source, *arguments))
    folder = context.workspace / f"ending-{program.name}-{secrets.token_hex(4)}"
    folder.mkdir()
    (folder / "program.py").write_text(source, "utf-8")
    command = ("python3", "program.py", *arguments)
    return context.backend.admit(ImageSource(folder=folder, command=command, trusted=True))


def _count_survivors(marker: str) -> int:
    """Returns how many processes with a marker still run after `_EXIT_SECONDS`."""
    deadline = time.monotonic() + _EXIT_SECONDS
    while (pids := _find_processes(marker)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(pids)


def _find_processes(marker: str) -> list[int]:
    """Returns the ids of this machine's processes, including those in containers, with a marker as an argument."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if marker.encode() in path.read_bytes().split(b"\0"):
                pids.append(int(path.parent.name))
    return pids
