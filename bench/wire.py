"""How fast the image protocol is: questions a second and MB a second, against the bare pipe under it.

Run `python bench/wire.py` (about a minute; `--json` for machines). Three ways carry the same frames to the same player,
a Python program that answers at once:

- pipe: bytes that were made beforehand go out, and as many bytes as the answer has are read. No protocol is spoken.
- session: `orchestrator.protocol.session.Session` makes each question and reads each answer, over the same kind of
pipe. - sandbox: the same session over a sandbox of the process backend.

The ways take turns, so that a slow moment of the machine meets all of them. The factors are time divided by that of
the pipe in the same turn: their smallest and their median. 1.0 would be a protocol that costs nothing.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from orchestrator import plugins
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.protocol.messages import BudgetHeader, LimitsHeader, Role, TaskHeader
from orchestrator.protocol.session import Pixels, Session
from orchestrator.sandboxes.base import BackendSettings, ImageSource, SandboxSpec

SHAPES = ((1, 8, 8), (3, 32, 32), (3, 224, 224))
COUNTS = (1, 64)
CHUNK = 1 << 20
SECONDS = 60.0
PLAYER = """
import os, sys

count = int(sys.argv[1])
zeros = ",".join(["0"] * count)
places = ",".join(map(str, range(count)))

def send(header, payload=b""):
    text = header.encode()
    data = b"".join((b"SPI1", len(text).to_bytes(4, "little"), len(payload).to_bytes(4, "little"), text, payload))
    left = memoryview(data)
    while left:
        left = left[os.write(1, left):]

waiting = bytearray()
while True:
    while len(waiting) < 12:
        data = os.read(0, 1 << 20)
        if not data:
            sys.exit()
        waiting += data
    start = 12 + int.from_bytes(waiting[4:8], "little")
    end = start + int.from_bytes(waiting[8:12], "little")
    while len(waiting) < end:
        waiting += os.read(0, 1 << 20)
    header = waiting[12:start].decode()
    number = header[6 : header.index(",")]
    if '"perturb"' in header:
        shape = header[header.index("[") : header.index("]") + 1]
        answer = '{"type":"candidates","id":%s,"dtype":"u8","shape":%s,"index":[%s]}' % (number, shape, places)
        send(answer, memoryview(waiting)[start:end])
    elif '"classify"' in header:
        send('{"type":"answers","id":%s,"labels":[%s]}' % (number, zeros))
    elif '"hello"' in header:
        send('{"type":"ready","id":%s}' % number)
    else:
        sys.exit()
    waiting = waiting[end:]
"""


class Way(Protocol):
    """Bytes to the player and back; a Sandbox is one."""

    def send(self, data: bytes, deadline: float) -> bool:
        """Writes all of it."""

    def receive(self, deadline: float) -> bytes | None:
        """Returns what is there, at most 1 MiB."""


class Pipe:
    """Two pipes and nothing else: no deadlines, no stderr."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin
        assert process.stdout
        self._out, self._in = process.stdin.fileno(), process.stdout.fileno()
        for pipe in (self._out, self._in):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, CHUNK)

    def send(self, data: bytes, deadline: float) -> bool:  # noqa: ARG002  the seam has one
        """Writes all of it."""
        left = memoryview(data)
        while left:
            left = left[os.write(self._out, left) :]
        return True

    def receive(self, deadline: float) -> bytes:  # noqa: ARG002  the seam has one
        """Returns what is there, at most 1 MiB."""
        return os.read(self._in, CHUNK)


@dataclass(frozen=True)
class Case:
    """One kind of question: who is asked about how many pictures of which shape."""

    role: Role
    shape: tuple[int, int, int]
    count: int

    @property
    def pixels(self) -> Pixels:
        """The same noise at every call."""
        return np.random.default_rng(0).integers(0, 256, (self.count, *self.shape), np.uint8)

    def session(self) -> Session:
        """Returns a session that has said nothing."""
        return Session(self.role, 10, 2 * int(np.prod(self.shape)) * self.count + 4096)

    def ask(self, session: Session, pixels: Pixels) -> bytes:
        """Returns the next question."""
        return session.ask_perturb(pixels, None) if self.role is Role.ATTACK else session.ask_classify(pixels)


def greet(case: Case, session: Session, way: Way) -> None:
    """Says hello and waits for ready."""
    task = TaskHeader(
        name="bench", classes=["c"] * 10, shape=list(case.shape), budget=BudgetHeader(norm="linf", epsilon=8)
    )
    limits = LimitsHeader(
        ready_seconds=SECONDS, step_seconds=SECONDS, batch=64, payload_bytes=0, memory_bytes=1 << 30, threads=1
    )
    exchange(session, way, session.ask_hello(task, limits, 0))


def exchange(session: Session, way: Way, question: bytes) -> int:
    """Sends a question and reads until it is answered; returns how many bytes the answer had."""
    deadline = time.monotonic() + SECONDS
    assert way.send(question, deadline)
    size = 0
    while session.waiting:
        data = way.receive(deadline)
        assert data, "the player is gone"
        size += len(data)
        for _ in session.feed(data):
            pass
    return size


def spoken(case: Case, way: Way) -> Callable[[int], float]:
    """Returns what plays so many questions with a session and tells how many seconds they took."""
    session, pixels = case.session(), case.pixels
    greet(case, session, way)

    def play(questions: int) -> float:
        begun = time.perf_counter()
        for _ in range(questions):
            exchange(session, way, case.ask(session, pixels))
        return time.perf_counter() - begun

    return play


def bare(case: Case, way: Way) -> tuple[Callable[[int], float], int, int]:
    """Returns what sends the same question again and again without a session, and the bytes of question and answer."""
    session = case.session()
    greet(case, session, way)
    question = case.ask(session, case.pixels)
    size = exchange(session, way, question)

    def play(questions: int) -> float:
        begun = time.perf_counter()
        for _ in range(questions):
            way.send(question, 0)
            left = size
            while left:
                left -= len(way.receive(0) or b"")
        return time.perf_counter() - begun

    return play, len(question), size


@contextmanager
def piped(folder: Path, count: int) -> Iterator[Pipe]:
    """A player at two pipes."""
    command = [sys.executable, "-S", str(folder / "player.py"), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            yield Pipe(process)
        finally:
            process.kill()


@contextmanager
def boxed(folder: Path, count: int) -> Iterator[Way]:
    """A player in a sandbox of the process backend."""
    backend = plugins.load_plugin("sandboxes", "process")(BackendSettings(workspace=folder / "workspace"))
    source = ImageSource(folder=folder / "source", command=("python", "-S", "player.py", str(count)), trusted=True)
    sandbox = backend.start(
        SandboxSpec(image=backend.admit(source), policy=SandboxPolicy(), run="bench", job=f"wire-{count}")
    )
    try:
        yield sandbox
    finally:
        sandbox.stop()


def measure(case: Case, folder: Path, repetitions: int, seconds: float) -> dict[str, Any]:
    """Returns times and factors of one case; `seconds` is how long each way plays in each turn."""
    with piped(folder, case.count) as one, piped(folder, case.count) as two, boxed(folder, case.count) as three:
        play, asked, answered = bare(case, one)
        ways = {"pipe": play, "session": spoken(case, two), "sandbox": spoken(case, three)}
        questions = max(5, int(seconds / (play(5) / 5)))
        for warm in ways.values():
            warm(max(5, questions // 10))
        turns = [{name: play(questions) / questions for name, play in ways.items()} for _ in range(repetitions)]
    result: dict[str, Any] = {"asks": "perturb" if case.role is Role.ATTACK else "classify"}
    result |= {"shape": list(case.shape), "pictures": case.count, "questions": questions, "repetitions": repetitions}
    result |= {"question_bytes": asked, "answer_bytes": answered}
    for name in ways:
        times = [turn[name] for turn in turns]
        factors = [turn[name] / turn["pipe"] for turn in turns]
        result[name] = {"seconds_min": min(times), "seconds_median": median(times)}
        result[name] |= {"factor_min": min(factors), "factor_median": median(factors)}
        result[name] |= {"megabytes_per_second": (asked + answered) / median(times) / 1e6}
    return result


def line(result: dict[str, Any]) -> str:
    """Returns a result for people."""
    shape = "x".join(map(str, result["shape"]))
    cells = [f"{result['asks']:<9} {result['pictures']:>2} x {shape:<9} {result['question_bytes']:>10,}"]
    cells += [f"{1e6 * result[way]['seconds_median']:>9.1f}" for way in ("pipe", "session", "sandbox")]
    cells += [
        f"{1 / result[way]['seconds_median']:>8,.0f}/s {result[way]['megabytes_per_second']:>6,.0f} MB/s "
        f"{result[way]['factor_min']:>5.2f} {result[way]['factor_median']:>5.2f}"
        for way in ("session", "sandbox")
    ]
    return " | ".join(cells)


def main() -> None:
    """Measures every case and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.2, help="how long one way plays in one turn")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    cases = [Case(role, shape, count) for role in (Role.DEFENCE, Role.ATTACK) for shape in SHAPES for count in COUNTS]
    results = []
    if not arguments.json:
        print(f"{'':<26} bytes |    median us: pipe, session, sandbox |", end=" ")
        print("session: questions, bytes, factor min, median | sandbox: the same")
    with tempfile.TemporaryDirectory(prefix="sparring-bench-") as name:
        folder = Path(name)
        (folder / "source").mkdir()
        for place in (folder, folder / "source"):
            (place / "player.py").write_text(PLAYER, encoding="utf-8")
        for case in cases:
            results.append(measure(case, folder, arguments.repetitions, arguments.seconds))
            if not arguments.json:
                print(line(results[-1]), flush=True)
    if arguments.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
