"""Measures what the broker adds to a query, against bare pipes with the same bytes, and its share of a real query.

Run `python bench/broker.py` (some minutes; `--json` for programs). An attack and a defence, Python programs that answer
at once, are connected in several ways. One query is a message from the attack, one or more questions to the defence
with their answers, and the reply.

- pipes: all bytes of a query were made beforehand. The script reads the attack's message, writes the questions to the
  defence, reads its answers, and writes the reply, without using the protocol.
- process, docker, runc: the same bytes through two sandboxes of that backend, with deadlines, standard error and
  limits.
- broker/process and so on: a query job as in a round: both players are asked as in play, the broker counts queries,
  answers are recorded and hashed, and one question a turn is kept for a replay. The defence misreads nothing, so no
  distance is measured.

The ways take turns, so that a slow moment of the machine affects all of them. The factors are times divided by that of
the pipes in the same turn: their smallest, their median, their largest.

The second table is of queries as SPSA sends them, 64 pictures of 3 x 224 x 224, to a defence that takes a hundredth of
a second for each picture. The share is the part of a query's time that the pipes of the same turn did not need. The
goal is below 0.1. `rest` is the part in which the defence does not work, including the players' reading and writing.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from wire import IMAGE, SECONDS, Pipe, Way, exchange, opened

from orchestrator.domain.access import Access, AccessKind
from orchestrator.domain.outcomes import Forfeit, OnMissing, OnViolation
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.samples import Pixels, Samples
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.domain.tasks import Budget, Isolation, Limits, Norm, Task
from orchestrator.execution import player_questions
from orchestrator.execution.defence_queries import DefenceQueries
from orchestrator.execution.player_pool import PlayerPool
from orchestrator.execution.query_broker import Broker
from orchestrator.execution.query_sample import QuestionSample
from orchestrator.execution.round_context import RoundContext
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.ledger.stores.memory import MemoryBlobs
from orchestrator.protocol.messages import QueriesHeader, Role, Want
from orchestrator.protocol.session import AttackQuery, QueryReply, Session
from orchestrator.sandboxes.base import Backend, Image, ImageSource, SandboxSpec

BACKENDS = ("process", "docker", "runc")
PICTURES_A_SECOND = 100
"""The speed of the defence that SPSA queries."""
SHARE_GOAL = 0.1
WARM_QUERIES = 3
SAMPLED = 1
"""How many questions of a turn are kept for a replay."""
HEADING = (
    "| query              | questions | over           | median us | a second |    min | median |    max |",
    "| ------------------ | --------- | -------------- | --------- | -------- | ------ | ------ | ------ |",
)
SHARE_HEADING = (
    "| query              | questions | over           | s a query |  rest | share min | median |    max | goal |",
    "| ------------------ | --------- | -------------- | --------- | ----- | --------- | ------ | ------ | ---- |",
)
PLAYER = """
import os, sys, time

side, count, queries, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])

def send(header, payload=b""):
    text = header.encode()
    data = b"".join((b"SPI1", len(text).to_bytes(4, "little"), len(payload).to_bytes(4, "little"), text, payload))
    left = memoryview(data)
    while left:
        left = left[os.write(1, left):]

def read():
    waiting = bytearray()
    while len(waiting) < 12:
        waiting += some(12 - len(waiting))
    size = int.from_bytes(waiting[4:8], "little") + int.from_bytes(waiting[8:12], "little")
    length = int.from_bytes(waiting[4:8], "little")
    rest = bytearray()
    while len(rest) < size:
        rest += some(size - len(rest))
    return rest[:length].decode(), memoryview(rest)[length:]

def some(size):
    data = os.read(0, min(size, 1 << 20))
    if not data:
        sys.exit()
    return data

places = ",".join(["0"] * count)
while True:
    header, payload = read()
    number = header[6 : header.index(",")]
    if '"hello"' in header:
        send('{"type":"ready","id":%s}' % number)
    elif '"classify"' in header:
        asked = int(header[header.index("[") + 1 : header.index("]")].split(",")[0])
        time.sleep(seconds * asked)
        send('{"type":"answers","id":%s,"labels":[%s]}' % (number, ",".join(["0"] * asked)))
    elif '"perturb"' in header:
        shape = header[header.index("[") + 1 : header.index("]")].split(",", 1)[1]
        pictures = bytes(payload) * count
        query = '{"type":"query","id":%s,"dtype":"u8","shape":[%d,%s],"want":"decision","for":[%s]}'
        for _ in range(queries):
            send(query % (number, count, shape, places), pictures)
            read()
        send('{"type":"candidates","id":%s,"dtype":"u8","shape":[1,%s],"index":[0]}' % (number, shape), payload)
    else:
        sys.exit()
"""


@dataclass(frozen=True)
class Case:
    """One kind of query: the number of pictures, their shape, and how many a question to the defence has (`batch`)."""

    count: int
    shape: tuple[int, int, int]
    batch: int = 1

    @property
    def questions(self) -> int:
        """How many questions to the defence a query needs."""
        return self.count // self.batch

    @property
    def picture(self) -> Pixels:
        """The picture in the question to the attack, with which the attack sends all its queries."""
        return np.random.default_rng(0).integers(0, 256, (1, *self.shape), np.uint8)

    def context(self, images: Mapping[str, Image], backend: Backend) -> RoundContext:
        """Returns a round between the two players."""
        classes = tuple(f"class {number}" for number in range(10))
        samples = Samples(self.picture, np.zeros(1, np.int64), classes)
        submissions = tuple(Submission(side, side, side, Side(side), images[side].digest, side) for side in images)
        task = Task("bench", classes, self.shape, 1, samples.digest, Budget(Norm.LINF, Fraction(8)))
        limits = Limits(perturb_seconds=1e6, perturb_batch=1, classify_seconds=SECONDS, classify_batch=self.batch)
        return RoundContext(
            contest="bench",
            round="round-1",
            run="bench",
            task=task,
            samples=samples,
            policy=SandboxPolicy(limits),
            isolation=Isolation.ATTACK,
            labels=True,
            on_missing=OnMissing.HELD,
            on_violation=OnViolation.FORFEIT,
            replay=SamplingDesign(power=0),
            seed=0,
            secret=bytes(32),
            roster=Roster(submissions),
            images=images,
            backend=backend,
            blobs=MemoryBlobs(),
            clock=time.monotonic,
            access=Access(AccessKind.DECISION, queries=10**9, batch=self.count),
        )


Play = Callable[[], float]
"""Plays all queries of a turn; returns the seconds that one query took."""


def bare(case: Case, context: RoundContext, attack: Way, defence: Way, queries: int) -> Play:
    """Returns a function that carries the bytes of queries that were made beforehand."""
    asked = QueriesHeader(per_picture=10**9, batch=case.count, prices={Want.DECISION: 1})
    attacking = Session(Role.ATTACK, 10, context.payload_limit, queries=asked)
    defending = Session(Role.DEFENCE, 10, context.payload_limit)
    for session, way in ((attacking, attack), (defending, defence)):
        exchange(session, way, session.ask_hello(context.task_header(), context.limits_header(SECONDS, 1), 0))
    question = defending.ask_classify(np.repeat(case.picture, case.batch, axis=0))
    answer_size = exchange(defending, defence, question)
    perturb = attacking.ask_perturb(case.picture, [0])
    query_size, reply, candidates_size = _sizes(case, attacking, attack, perturb, queries)

    def play() -> float:
        begun = time.perf_counter()
        deadline = time.monotonic() + SECONDS
        attack.send(perturb, deadline)
        for _ in range(queries):
            deadline = time.monotonic() + SECONDS
            _take(attack, query_size, deadline)
            for _ in range(case.questions):
                assert defence.send(question, deadline)
                _take(defence, answer_size, deadline)
            assert attack.send(reply, deadline)
        _take(attack, candidates_size, deadline)
        return (time.perf_counter() - begun) / queries

    return play


def _sizes(case: Case, session: Session, way: Way, perturb: bytes, queries: int) -> tuple[int, bytes, int]:
    """Plays a question to the attack; returns the bytes of a query, a reply, and the bytes of the candidates."""
    deadline = time.monotonic() + SECONDS
    assert way.send(perturb, deadline)
    size, sizes, reply = 0, [], b""
    while session.has_open_question:
        data = way.receive(deadline)
        assert data, "the attack is gone"
        size += len(data)
        for said in session.feed(data):
            sizes.append(size)
            size = 0
            if isinstance(said, AttackQuery):
                reply = session.answer_query(QueryReply([999_999_999] * case.count, labels=[0] * case.count))
                assert way.send(reply, deadline)
    assert len(sizes) == queries + 1
    return sizes[0], reply, sizes[-1]


def _take(way: Way, size: int, deadline: float) -> None:
    while size:
        data = way.receive(deadline)
        assert data, "the player is gone"
        size -= len(data)


def brokered(case: Case, context: RoundContext, stack: ExitStack, queries: int) -> Play:
    """Returns a function that plays the queries as a query job does."""
    attack_pool, pool = (
        PlayerPool(context, context.roster[side], f"bench-{side}", lambda: 0) for side in (Side.ATTACK, Side.DEFENCE)
    )
    stack.callback(attack_pool.close)
    stack.callback(pool.close)
    gate, pixels, labels = context.gate(), case.picture, np.zeros(1, np.int64)

    def play() -> float:
        asked = DefenceQueries(pool, context, QuestionSample(np.random.default_rng(0), SAMPLED))
        broker = Broker(context.access, gate.budget, asked, 0, pixels, labels)
        output = player_questions.AttackOutput(gate.missing_all(pixels))
        begun = time.perf_counter()
        player_questions.ask_attack(
            attack_pool, gate, context.limits, pixels, labels, context.clock, output, broker.answer
        )
        seconds = time.perf_counter() - begun
        assert broker.record.queries.tolist() == [queries * case.count]
        assert output.examples.forfeits.tolist() == [Forfeit.NONE], output.faults
        return seconds / queries

    return play


@contextmanager
def piped(folder: Path, words: Sequence[str]) -> Iterator[Pipe]:
    """Runs a player at two pipes."""
    command = [sys.executable, "-S", str(folder / "player.py"), *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            yield Pipe(process)
        finally:
            process.kill()


def admitted(backend: Backend, folder: Path, words: Sequence[str]) -> Image:
    """Returns an admitted player. Raises Rejected if there is no image for it."""
    if backend.name == "process":
        command = ("python", "-S", "player.py", *words)
        return backend.admit(ImageSource(folder=folder, command=command, trusted=True))
    image = backend.admit(ImageSource(image=IMAGE, trusted=True))
    return replace(image, command=("python3", "-I", "-S", "-c", PLAYER, *words))


@contextmanager
def boxed(backend: Backend, context: RoundContext, side: str) -> Iterator[Way]:
    """Runs a player in a sandbox of its own."""
    spec = SandboxSpec(image=context.images[side], policy=context.policy, run="bench", job=f"bench-{side}")
    sandbox = backend.start(spec)
    try:
        yield sandbox
    finally:
        sandbox.stop()


def ways(
    case: Case, backends: Mapping[str, Backend], folder: Path, stack: ExitStack, queries: int, seconds: float = 0.0
) -> dict[str, Play]:
    """Returns the functions that play a case, by way, with loaded players; a picture takes the defence `seconds`."""
    told = {side: [side, str(case.count), str(queries), str(seconds)] for side in ("attack", "defence")}
    found: dict[str, Play] = {}
    for name, backend in backends.items():
        images = {side: admitted(backend, folder, words) for side, words in told.items()}
        context = case.context(images, backend)
        if not found:
            attack, defence = (stack.enter_context(piped(folder, told[side])) for side in told)
            found["pipes"] = bare(case, context, attack, defence, queries)
        boxes = [stack.enter_context(boxed(backend, context, side)) for side in told]
        found[name] = bare(case, context, boxes[0], boxes[1], queries)
        found[f"broker/{name}"] = brokered(case, context, stack, queries)
    for play in found.values():
        play()
    return found


def measure(
    case: Case, backends: Mapping[str, Backend], folder: Path, repetitions: int, seconds: float
) -> dict[str, Any]:
    """Returns times and factors of one case; `seconds` is how long the pipes play in each turn."""
    with ExitStack() as stack:
        trial = ways(case, dict(list(backends.items())[:1]), folder, stack, WARM_QUERIES)
        queries = max(2, int(seconds / trial["pipes"]()))
    with ExitStack() as stack:
        found = ways(case, backends, folder, stack, queries)
        turns = [{name: play() for name, play in found.items()} for _ in range(repetitions)]
    result: dict[str, Any] = {"pictures": case.count, "shape": list(case.shape), "questions": case.questions}
    result |= {"queries": queries, "repetitions": repetitions, "ways": {}}
    for name in found:
        factors = [turn[name] / turn["pipes"] for turn in turns]
        result["ways"][name] = {
            "seconds_median": median(turn[name] for turn in turns),
            "factor_min": min(factors),
            "factor_median": median(factors),
            "factor_max": max(factors),
        }
    return result


def measure_share(
    case: Case, backends: Mapping[str, Backend], folder: Path, repetitions: int, queries: int
) -> dict[str, Any]:
    """Returns each way's share of a query's time, with a defence that takes its time for each picture."""
    with ExitStack() as stack:
        found = ways(case, backends, folder, stack, queries, 1 / PICTURES_A_SECOND)
        turns = [{name: play() for name, play in found.items()} for _ in range(repetitions)]
    works = case.count / PICTURES_A_SECOND
    result: dict[str, Any] = {"pictures": case.count, "shape": list(case.shape), "questions": case.questions}
    result |= {"queries": queries, "repetitions": repetitions, "goal": SHARE_GOAL, "ways": {}}
    for name in found:
        shares = [1 - turn["pipes"] / turn[name] for turn in turns]
        result["ways"][name] = {
            "seconds_median": median(turn[name] for turn in turns),
            "rest_median": median(1 - works / turn[name] for turn in turns),
            "share_min": min(shares),
            "share_median": median(shares),
            "share_max": max(shares),
        }
    return result


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yields a result as text: a row of the table for each way."""
    query = " x ".join(map(str, (result["pictures"], *result["shape"])))
    for name, way in result["ways"].items():
        cells = [f"{query:<18}", f"{result['questions']:>9}", f"{name:<14}"]
        if "goal" in result:
            met = "met" if way["share_median"] < result["goal"] else "not"
            cells += [f"{way['seconds_median']:>9.4f}", f"{way['rest_median']:>5.3f}"]
            cells += [f"{way['share_min']:>9.3f}", f"{way['share_median']:>6.3f}", f"{way['share_max']:>6.3f}"]
            cells += [f"{met if name.startswith('broker') else '':<4}"]
        else:
            cells += [f"{1e6 * way['seconds_median']:>9,.0f}", f"{1 / way['seconds_median']:>8,.0f}"]
            cells += [f"{way[key]:>6.2f}" for key in ("factor_min", "factor_median", "factor_max")]
        yield f"| {' | '.join(cells)} |"


CASES = (
    Case(1, (3, 32, 32)),
    Case(64, (3, 32, 32), 64),
    Case(64, (3, 32, 32)),
    Case(1, (3, 224, 224)),
    Case(64, (3, 224, 224), 64),
    Case(64, (3, 224, 224)),
)
SPSA = (Case(64, (3, 224, 224), 64), Case(64, (3, 224, 224)))


def main() -> None:
    """Measures every case and prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="may be repeated; default: process")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="how long the bare pipes play in one turn")
    parser.add_argument("--queries", type=int, default=3, help="queries of SPSA in one turn")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()

    def show(text: Iterator[str] | Sequence[str]) -> None:
        if not asked.json:
            print("\n".join(text), flush=True)

    found: dict[str, list[dict[str, Any]]] = {"overhead": [], "spsa": []}
    with tempfile.TemporaryDirectory(prefix="sparring-bench-") as name:
        folder = Path(name)
        source = folder / "source"
        source.mkdir()
        (source / "player.py").write_text(PLAYER, encoding="utf-8")
        backends = {each: opened(each, folder) for each in asked.backend or ["process"]}
        show(HEADING)
        for case in CASES:
            found["overhead"].append(measure(case, backends, source, asked.repetitions, asked.seconds))
            show(lines(found["overhead"][-1]))
        show(["", *SHARE_HEADING])
        for case in SPSA:
            found["spsa"].append(measure_share(case, backends, source, asked.repetitions, asked.queries))
            show(lines(found["spsa"][-1]))
    if asked.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
