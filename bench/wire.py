"""Measures the speed of the image protocol, in questions and MB a second, against the bare pipe under it.

Run `python bench/wire.py` (some minutes; `--json` for programs). Several ways carry the same frames to the same player,
a Python program that answers at once:

- pipe: bytes that were made beforehand are written, and as many bytes as the answer has are read, without the protocol.
- session: `orchestrator.protocol.session.Session` makes each question and reads each answer, over the same kind of
  pipe.
- process, docker, runc: the bytes of `pipe` through a sandbox of that backend, with deadlines, standard error and
  limits. Containers use the image `sparring/base:cpu`. `--backend` names a backend, and may be repeated; without it all
  backends are measured that work here.

The ways take turns, so that a slow moment of the machine affects all of them. The factors are times divided by that of
the pipe in the same turn: their smallest and their median. 1.0 would be a protocol, or a sandbox, that costs nothing.
The goals for the median factor of a sandbox are 1.5 for one picture of 3 x 32 x 32, and 1.1 for 64 of 3 x 224 x 224.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from orchestrator import plugins
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.errors import BackendUnavailable, Rejected
from orchestrator.protocol.messages import BudgetHeader, LimitsHeader, Role, TaskHeader
from orchestrator.protocol.session import Pixels, Session
from orchestrator.sandboxes.base import Backend, BackendSettings, Image, ImageSource, SandboxSpec

SHAPES = ((1, 8, 8), (3, 32, 32), (3, 224, 224))
COUNTS = (1, 64)
GOALS = {(1, (3, 32, 32)): 1.5, (64, (3, 224, 224)): 1.1}
"""The largest factor that a sandbox should have, by the number of pictures in a question and their shape."""
BACKENDS = ("process", "docker", "runc")
IMAGE = "sparring/base:cpu"
HEADING = (
    "| asks     | pictures           | over    | median us | a second |   MB/s |    min | median | goal         |",
    "| -------- | ------------------ | ------- | --------- | -------- | ------ | ------ | ------ | ------------ |",
)
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
    """Carries bytes to the player and back. A Sandbox is a Way."""

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
    """One kind of question: the side of the player, the number of pictures, and their shape."""

    role: Role
    shape: tuple[int, int, int]
    count: int

    @property
    def goal(self) -> float | None:
        """The largest factor that a sandbox should have, if there is a goal."""
        return GOALS.get((self.count, self.shape))

    @property
    def pixels(self) -> Pixels:
        """The same noise at every call."""
        return np.random.default_rng(0).integers(0, 256, (self.count, *self.shape), np.uint8)

    def session(self) -> Session:
        """Returns a session that has sent nothing yet."""
        return Session(self.role, 10, 2 * int(np.prod(self.shape)) * self.count + 4096)

    def ask(self, session: Session, pixels: Pixels) -> bytes:
        """Returns the next question."""
        return session.ask_perturb(pixels, None) if self.role is Role.ATTACK else session.ask_classify(pixels)


def greet(case: Case, session: Session, way: Way) -> None:
    """Sends hello and waits for ready."""
    task = TaskHeader(
        name="bench", classes=["c"] * 10, shape=list(case.shape), budget=BudgetHeader(norm="linf", epsilon=8)
    )
    limits = LimitsHeader(
        ready_seconds=SECONDS, step_seconds=SECONDS, batch=64, payload_bytes=0, memory_bytes=1 << 30, threads=1
    )
    exchange(session, way, session.ask_hello(task, limits, 0))


def exchange(session: Session, way: Way, question: bytes) -> int:
    """Sends a question and reads the whole answer; returns the number of its bytes."""
    deadline = time.monotonic() + SECONDS
    assert way.send(question, deadline)
    size = 0
    while session.has_open_question:
        data = way.receive(deadline)
        assert data, "the player is gone"
        size += len(data)
        for _ in session.feed(data):
            pass
    return size


def spoken(case: Case, way: Way) -> Callable[[int], float]:
    """Returns a function that plays a number of questions with a session and returns how many seconds they took."""
    session, pixels = case.session(), case.pixels
    greet(case, session, way)

    def play(questions: int) -> float:
        begun = time.perf_counter()
        for _ in range(questions):
            exchange(session, way, case.ask(session, pixels))
        return time.perf_counter() - begun

    return play


def bare(case: Case, way: Way) -> tuple[Callable[[int], float], int, int]:
    """Returns a function that sends one question repeatedly without a session, and the sizes of question and answer."""
    session = case.session()
    greet(case, session, way)
    question = case.ask(session, case.pixels)
    size = exchange(session, way, question)

    def play(questions: int) -> float:
        begun = time.perf_counter()
        for _ in range(questions):
            deadline = time.monotonic() + SECONDS
            assert way.send(question, deadline)
            left = size
            while left:
                data = way.receive(deadline)
                assert data, "the player is gone"
                left -= len(data)
        return time.perf_counter() - begun

    return play, len(question), size


@contextmanager
def piped(folder: Path, count: int) -> Iterator[Pipe]:
    """Runs a player at two pipes."""
    command = [sys.executable, "-S", str(folder / "player.py"), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            yield Pipe(process)
        finally:
            process.kill()


def opened(name: str, folder: Path) -> Backend:
    """Returns a backend. Raises BackendUnavailable if it cannot play here."""
    backend: Backend = plugins.load_plugin("sandboxes", name)(BackendSettings(workspace=folder / "workspace"))
    backend.require_available()
    return backend


def available(folder: Path) -> dict[str, Backend]:
    """Returns the backends that work on this machine; prints to stderr why others do not."""
    backends = {}
    for name in BACKENDS:
        try:
            backends[name] = opened(name, folder)
            admitted(backends[name], folder, 1)
        except (BackendUnavailable, Rejected) as error:
            backends.pop(name, None)
            print(f"without {name}: {error}", file=sys.stderr)
    return backends


def admitted(backend: Backend, folder: Path, count: int) -> Image:
    """Returns the player for questions of `count` pictures. Raises Rejected if there is no image for it."""
    if backend.name == "process":
        command = ("python", "-S", "player.py", str(count))
        return backend.admit(ImageSource(folder=folder / "source", command=command, trusted=True))
    image = backend.admit(ImageSource(image=IMAGE, trusted=True))
    return replace(image, command=("python3", "-I", "-S", "-c", PLAYER, str(count)))


@contextmanager
def boxed(backend: Backend, folder: Path, count: int) -> Iterator[Way]:
    """Runs a player in a sandbox."""
    image = admitted(backend, folder, count)
    sandbox = backend.start(SandboxSpec(image=image, policy=SandboxPolicy(), run="bench", job=f"wire-{count}"))
    try:
        yield sandbox
    finally:
        sandbox.stop()


def measure(
    case: Case, backends: Mapping[str, Backend], folder: Path, repetitions: int, seconds: float
) -> dict[str, Any]:
    """Returns times and factors of one case; `seconds` is how long each way plays in each turn."""
    with ExitStack() as stack:
        play, asked, answered = bare(case, stack.enter_context(piped(folder, case.count)))
        ways = {"pipe": play, "session": spoken(case, stack.enter_context(piped(folder, case.count)))}
        for name, backend in backends.items():
            ways[name], _, _ = bare(case, stack.enter_context(boxed(backend, folder, case.count)))
        questions = max(5, int(seconds / (play(5) / 5)))
        for warm in ways.values():
            warm(max(5, questions // 10))
        turns = [{name: play(questions) / questions for name, play in ways.items()} for _ in range(repetitions)]
    result: dict[str, Any] = {"asks": "perturb" if case.role is Role.ATTACK else "classify"}
    result |= {"shape": list(case.shape), "pictures": case.count, "questions": questions, "repetitions": repetitions}
    result |= {"question_bytes": asked, "answer_bytes": answered, "goal": case.goal, "ways": {}}
    for name in ways:
        times = [turn[name] for turn in turns]
        factors = [turn[name] / turn["pipe"] for turn in turns]
        result["ways"][name] = {
            "seconds_min": min(times),
            "seconds_median": median(times),
            "factor_min": min(factors),
            "factor_median": median(factors),
            "megabytes_per_second": (asked + answered) / median(times) / 1e6,
        }
    return result


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yields a result as text: a row of the table for each way."""
    shape = " x ".join(map(str, (result["pictures"], *result["shape"])))
    for name, way in result["ways"].items():
        verdict = ""
        if result["goal"] is not None and name not in {"pipe", "session"}:
            met = "met" if way["factor_median"] <= result["goal"] else "not met"
            verdict = f"{result['goal']}: {met}"
        cells = [f"{result['asks']:<8}", f"{shape:<18}", f"{name:<7}", f"{1e6 * way['seconds_median']:>9,.1f}"]
        cells += [f"{1 / way['seconds_median']:>8,.0f}", f"{way['megabytes_per_second']:>6,.0f}"]
        cells += [f"{way['factor_min']:>6.2f}", f"{way['factor_median']:>6.2f}", f"{verdict:<12}"]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Measures every case and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="default: all that work here")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.2, help="how long one way plays in one turn")
    parser.add_argument("--goals", action="store_true", help="measure only the cases that have a goal")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    cases = [Case(role, shape, count) for role in (Role.DEFENCE, Role.ATTACK) for shape in SHAPES for count in COUNTS]
    results = []
    with tempfile.TemporaryDirectory(prefix="sparring-bench-") as name:
        folder = Path(name)
        (folder / "source").mkdir()
        for place in (folder, folder / "source"):
            (place / "player.py").write_text(PLAYER, encoding="utf-8")
        named = {each: opened(each, folder) for each in arguments.backend or ()}
        backends = named or available(folder)
        if not arguments.json:
            print("\n".join(HEADING))
        for case in cases:
            if arguments.goals and case.goal is None:
                continue
            results.append(measure(case, backends, folder, arguments.repetitions, arguments.seconds))
            if not arguments.json:
                print("\n".join(lines(results[-1])), flush=True)
    if arguments.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
