"""Runs `program.py`, ends it while it runs, and looks for what is left of it.

The program gets a random word as an argument, which its children inherit, and says `up` when it has done its work.
What counts as harm: something with that word in its command line lives after the end, or while the engine takes the
sandbox for ended; or ending it takes longer than `MAX_STOP_SECONDS`. With the control removed the sandbox is ended as a
careless orchestrator would end it, or runs under a weaker policy.
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
"""Seconds that ending a sandbox may take."""
READY_OUTPUT = b"up"
_READY_SECONDS = 60.0
_STUCK_SECONDS = 20.0
_STUCK_POLL_SECONDS = 0.3
_EXIT_SECONDS = 2.0
_KILL_SECONDS = 4.0
_GHOST_SECONDS = 3.0

_CARELESS_SOURCE = """
import json, os, signal, subprocess, sys, time
how, word, source = sys.argv[1:]
command = [sys.executable, "-I", "-S", "-c", source, word]
child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
child.stdout.read(2)
if how == "terminate":
    child.terminate()
elif how == "process":
    child.kill()
else:
    os.killpg(child.pid, signal.SIGKILL)
time.sleep(1)
left = []
for number in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{number}/cmdline", "rb") as file:
            words = file.read().split(b"\\0")
    except OSError:
        continue
    if word.encode() in words and int(number) not in (os.getpid(), os.getppid()):
        left.append(int(number))
print(json.dumps({"harm": bool(left), "evidence": f"{len(left)} of its processes outlive an end by {how}"}), flush=True)
"""
"""An orchestrator that trusts one signal, with the player beside it in the sandbox, which bounds the harm."""


def run(program: Program, context: Context, *, removed: bool) -> RunResult:
    """Returns what was seen of a program of the kind `ending`.

    Raises:
        SparringError: the backend could not run it; nothing is shown then.
    """
    weaker = program.expectation.removed.weakness if removed and program.expectation.removed else None
    word = f"zoo{secrets.token_hex(8)}"
    source = (program.folder / "program.py").read_text("utf-8")
    if weaker in (Weakness.TERMINATE, Weakness.PROCESS, Weakness.GROUP):
        image = _program_image(context, program, _CARELESS_SOURCE, (str(weaker), word, source))
    else:
        image = _program_image(context, program, source, (word,))
    job = f"{program.name}-{'removed' if removed else 'contained'}"
    spec = SandboxSpec(image, context.policy_for(program, removed=removed), context.run, job, context.device)
    sandbox = context.backend.start(spec)
    try:
        if weaker in (Weakness.TERMINATE, Weakness.PROCESS, Weakness.GROUP):
            return _read_careless_report(sandbox, program.expectation.seconds)
        return _stop_and_inspect(sandbox, context, spec, word, unread=weaker is Weakness.UNREAD)
    finally:
        sandbox.stop()


def _stop_and_inspect(sandbox: Sandbox, context: Context, spec: SandboxSpec, word: str, *, unread: bool) -> RunResult:
    """Ends a program that runs, and looks for it."""
    evidence = []
    stream_ended = _wait_until_ready(sandbox)
    if ghosts := 0 if unread else _count_ghosts(context, spec.job, word, stream_ended=stream_ended):
        evidence.append(f"{ghosts} of its processes live on while its sandbox is taken for ended")
    if unread and (seconds := _blocked_kill_seconds(context, spec.job, word)):
        evidence.append(f"the engine did not answer a kill within {seconds:.0f} s")
    started_at = time.monotonic()
    end = sandbox.stop()
    seconds = time.monotonic() - started_at
    if seconds > MAX_STOP_SECONDS:
        evidence.append(f"ending it took {seconds:.1f} s")
    if left := _count_survivors(word):
        evidence.append(f"{left} of its processes outlive it")
    return RunResult(
        harm=bool(evidence),
        ending=end.ending,
        seconds=seconds,
        peak_bytes=end.peak_bytes,
        evidence=evidence or [f"nothing of it is left; ending it took {seconds:.1f} s"],
    )


def _wait_until_ready(sandbox: Sandbox) -> bool:
    """Waits for `up`, and a moment more; returns whether the sandbox's stream has ended by then.

    Raises:
        InfrastructureFault: the program did not get so far; nothing is shown then.
    """
    output = b""
    deadline = time.monotonic() + _READY_SECONDS
    while READY_OUTPUT not in output:
        data = sandbox.receive(deadline)
        if data == b"":
            return True
        if data is None:
            raise InfrastructureFault(f"the program did not say that it is up within {_READY_SECONDS:g} s")
        output += data[: len(READY_OUTPUT)]
    deadline = time.monotonic() + 0.5
    while (data := sandbox.receive(deadline)) and time.monotonic() < deadline:
        pass
    return data == b""


def _count_ghosts(context: Context, job: str, word: str, *, stream_ended: bool) -> int:
    """Returns how many processes live on although the engine, or the end of the stream, says that all have ended."""
    if stream_ended:
        time.sleep(0.5)
        return len(_find_processes(word))
    deadline = time.monotonic() + _GHOST_SECONDS
    while context.image.folder is None and time.monotonic() < deadline:
        running = [docker_cli.is_running(container) for container in docker_cli.list_containers(context, job)]
        if running and not any(running):
            return len(_find_processes(word))
        time.sleep(0.2)
    return 0


def _read_careless_report(sandbox: Sandbox, seconds: float) -> RunResult:
    """Returns what the careless orchestrator in the sandbox reports."""
    output = b""
    started_at = time.monotonic()
    while data := sandbox.receive(started_at + seconds):
        output = (output + data)[-4096:]
        if output.endswith(b"\n"):
            break
    harm, evidence = harm_report.parse_report(output)
    return RunResult(harm=harm, seconds=time.monotonic() - started_at, evidence=[evidence] if evidence else [])


def _blocked_kill_seconds(context: Context, job: str, word: str) -> float:
    """Returns for how many seconds the engine hung when it was asked to kill a container whose output nobody reads.

    0 is that it did not. It is given longer than it takes to answer anything else here, so that a busy machine is not
    taken for a hanging engine.
    """
    _wait_until_stuck(word)
    started_at = time.monotonic()
    docker_cli.run_docker("version")
    patience = max(_KILL_SECONDS, 4 * (time.monotonic() - started_at))
    for container in docker_cli.list_containers(context, job):
        try:
            docker_cli.run_docker("kill", container, seconds=patience)
            docker_cli.run_docker("inspect", container, seconds=patience)
        except subprocess.TimeoutExpired:
            return patience
    return 0.0


def _wait_until_stuck(word: str) -> None:
    """Waits until what the program writes is not taken any more: until then everything behind it takes a little.

    It is seen by what it wrote so far, which does not grow while none of it wants a processor. Where its processes
    cannot be seen (gVisor) the time runs out.
    """
    until = time.monotonic() + _STUCK_SECONDS
    before = None
    while time.monotonic() < until:
        seen = _bytes_written(word)
        if seen is not None and seen == before:
            return
        before = seen
        time.sleep(_STUCK_POLL_SECONDS)


def _bytes_written(word: str) -> int | None:
    """Returns how many bytes the processes with that word wrote; None where one of them runs, or none is to be seen."""
    total = 0
    for pid in _find_processes(word):
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


def _count_survivors(word: str) -> int:
    """Returns how many processes with that word are alive, after they were given a moment to go."""
    deadline = time.monotonic() + _EXIT_SECONDS
    while (found := _find_processes(word)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(found)


def _find_processes(word: str) -> list[int]:
    """Returns the processes of this machine, those in containers too, with that word in their command line."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if word.encode() in path.read_bytes().split(b"\0"):
                processes.append(int(path.parent.name))
    return processes
