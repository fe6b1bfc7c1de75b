"""Sends mutated conversations to the decoder and the session, and checks that only replies and faults result.

Run `python tests/protocol/fuzz_frames.py --inputs 1000000 --seed 0`. It prints the rate, how the inputs ended, the
slowest input and the growth of memory. At the first broken property it exits with status 1 and prints the input that
reproduces it. The properties:

- nothing but a `SubmissionFault` is ever raised;
- the decoder never holds more bytes than it was fed;
- a question that was answered takes no second answer;
- no input takes longer than a second of processor time, and memory does not grow.
"""

import argparse
import copy
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from orchestrator.errors import OutputFlood, ProtocolFault, SubmissionFault
from orchestrator.protocol import frames
from orchestrator.protocol.messages import BudgetHeader, LimitsHeader, QueriesHeader, Role, TaskHeader, Want
from orchestrator.protocol.session import AnswersReply, AttackQuery, QueryReply, Session

CLASSES = 10
PAYLOAD_LIMIT = 1 << 16
QUERIES = QueriesHeader(per_picture=5, batch=2, prices={Want.DECISION: 1, Want.SCORES: 2})
SLOWEST_SECONDS = 1.0
GROWTH_BYTES = 64 << 20
TOKEN = re.compile(rb'"[^"]*"|-?\d+|[][{}:,]')
VALUE = re.compile(rb'(?<=[:,\[])"[^"]*"(?!:)|(?<=[:,\[])-?\d+|\[[^]]*\]')
VALUES = [
    *(b"-1", b"-0", b"0", b"1", b"2", b"3", b"10", b"255", b"65536", b"2147483647", b"2147483648", b"9007199254740992"),
    *(
        b"1.0",
        b"1e9",
        b"-1e-999",
        b"null",
        b"true",
        b"[]",
        b"{}",
        b"[0]",
        b"[0,1]",
        b"[1,1]",
        b"[1,0,2]",
        b"[null,null]",
    ),
    *(b"[2,10]", b"[1,1,2,2]", b"[2,1,2,2]", b"[9,10]", b"[[0]]", b"[" * 60 + b"]" * 60, b"[]" * 70),
    *(
        b'""',
        b'"\\u0000"',
        b'"[[[["',
        b'"u8"',
        b'"f32"',
        b'"ready"',
        b'"answers"',
        b'"candidates"',
        b'"query"',
        b'"fault"',
    ),
    *(b'"gradients"', b'"bye"', b'"scores"', b'"decision"', b'"for"', b'"' + b"x" * 5000 + b'"'),
    *(b'null,"dtype":"f32"', b'1,"shape":[2,10]', b'2,"more":{"a":[1,{"b":null}]}'),
]
BROKEN = [
    *(
        b"9007199254740993",
        b"1" * 400,
        b"1e999",
        b"01",
        b"+1",
        b".",
        b"NaN",
        b"-Infinity",
        b"[" * 70,
        b"{" * 70,
        b'"\\"',
    ),
    *(b'"\\ud800"', b'"\xff"', b'"\\x"', b'"[[[[', b",", b":", b" ", b"\n", b"\0", b'"a":{"a":1,"a":1}', b"}", b'"id"'),
]


@dataclass(frozen=True)
class Seed:
    """A session with an open question, and frames that answer it."""

    session: Session
    answers: tuple[tuple[bytes, bytes], ...]


def seeds() -> list[Seed]:
    """Returns one seed for each question of the protocol."""
    pixels = np.arange(8, dtype=np.uint8).reshape(2, 1, 2, 2)
    asks: list[tuple[Role, Callable[[Session], bytes] | None, tuple[tuple[bytes, bytes], ...]]] = [
        (Role.ATTACK, None, ((b'{"type":"ready","id":1,"name":"n","gives":["label","scores"]}', b""),)),
        (
            Role.ATTACK,
            lambda session: session.ask_perturb(pixels, [1, 2]),
            (
                (b'{"type":"query","id":2,"dtype":"u8","shape":[1,1,2,2],"want":"decision","for":[1]}', bytes(4)),
                (b'{"type":"candidates","id":2,"dtype":"u8","shape":[1,1,2,2],"index":[1]}', bytes(4)),
                (b'{"type":"candidates","id":2,"dtype":"u8","shape":[1,1,2,2],"index":[0]}', bytes(4)),
            ),
        ),
        (
            Role.DEFENCE,
            lambda session: session.ask_classify(pixels),
            ((b'{"type":"answers","id":2,"labels":[3,null]}', b""),),
        ),
        (
            Role.DEFENCE,
            lambda session: session.ask_classify(pixels),
            ((b'{"type":"answers","id":2,"labels":[3,4],"dtype":"f32","shape":[2,10]}', bytes(80)),),
        ),
        (
            Role.DEFENCE,
            lambda session: session.ask_gradient(pixels, [1, 2]),
            ((b'{"type":"gradients","id":2,"dtype":"f32","shape":[2,1,2,2]}', bytes(32)),),
        ),
        (
            Role.DEFENCE,
            lambda session: session.ask_classify(pixels),
            ((b'{"type":"fault","id":2,"code":"c","text":"t"}', b""),),
        ),
    ]
    return [Seed(_opened(role, ask), answers) for role, ask, answers in asks]


def _opened(role: Role, ask: Callable[[Session], bytes] | None) -> Session:
    session = Session(role, CLASSES, PAYLOAD_LIMIT, queries=QUERIES if role is Role.ATTACK else None)
    budget = BudgetHeader(norm="linf", epsilon=8)
    limits = LimitsHeader(ready_seconds=1, step_seconds=1, batch=2, payload_bytes=0, memory_bytes=1, threads=1)
    session.ask_hello(TaskHeader(name="t", classes=["c"] * CLASSES, shape=[1, 2, 2], budget=budget), limits, 0)
    if ask is not None:
        list(session.feed(frames.encode_frame({"type": "ready", "id": 1, "gives": ["gradient"]})))
        ask(session)
    return session


def fresh(prototype: Session) -> Session:
    """Returns a session in the same state, far faster than with another hello."""
    session = copy.copy(prototype)
    session._decoder = frames.FrameDecoder(PAYLOAD_LIMIT)
    session._undelivered = set(prototype._undelivered)
    return session


def raw(header: bytes, payload: bytes) -> bytes:
    """Returns a frame, made without our encoder."""
    return b"SPI1" + len(header).to_bytes(4, "little") + len(payload).to_bytes(4, "little") + header + payload


class Mutator:
    """Makes inputs from the seeds' answers; the same seed makes the same inputs."""

    def __init__(self, random: Random, corpus: list[Seed]) -> None:
        self._random = random
        self._parts = [part for seed in corpus for part in seed.answers]

    def conversation(self, seed: Seed) -> bytes:
        """Returns bytes that answer, nearly answer or do not answer the seed's question."""
        random = self._random
        chance = random.random()
        if chance < 0.02:
            return random.randbytes(random.randrange(64))
        parts = list(seed.answers[random.randrange(len(seed.answers)) :])
        if chance < 0.15:
            parts.insert(random.randrange(len(parts) + 1), random.choice(self._parts))
        where = random.randrange(len(parts))
        if chance < 0.65:
            parts[where] = self._header(*parts[where])
        data = b"".join([raw(*part) for part in parts])
        return data if 0.15 < chance < 0.6 else self._bytes(data)

    def pieces(self, data: bytes) -> list[bytes]:
        """Returns the data cut as a pipe might."""
        if self._random.random() < 0.7:
            return [data]
        size = self._random.randrange(1, 40)
        return [data[at : at + size] for at in range(0, len(data), size)]

    def _header(self, header: bytes, payload: bytes) -> tuple[bytes, bytes]:
        random = self._random
        for _ in range(random.randrange(1, 3)):
            whole = random.random() < 0.8
            spans = [match.span() for match in (VALUE if whole else TOKEN).finditer(header)] or [(0, 0)]
            start, end = random.choice(spans)
            header = header[:start] + random.choice(VALUES if whole else BROKEN) + header[end:]
        if random.random() < 0.2:
            payload = random.choice((b"", b"\xff" * len(payload), random.randbytes(random.randrange(100))))
        return header, payload

    def _bytes(self, data: bytes) -> bytes:
        random = self._random
        mutated = bytearray(data)
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(len(mutated) + 1)
            match random.randrange(6):
                case 0:
                    mutated[at : at + 1] = bytes([random.randrange(256)])
                case 1 if at < len(mutated):
                    mutated[at] ^= 1 << random.randrange(8)
                case 2:
                    del mutated[at : at + random.randrange(1, 9)]
                case 3:
                    mutated[at:at] = mutated[at : at + random.randrange(1, 33)]
                case 4:
                    del mutated[at:]
                case _:
                    place = random.choice((4, 8))
                    mutated[place : place + 4] = random.choice((0, 1, 255, 65536, 65537, 2**31, 2**32 - 1)).to_bytes(
                        4, "little"
                    )
        return bytes(mutated)


def play(session: Session, pieces: list[bytes]) -> str:
    """Feeds the pieces; returns how it ended, in a word.

    Raises:
        AssertionError: a promise was broken.
    """
    fed = 0
    try:
        for piece in pieces:
            fed += len(piece)
            for reply in session.feed(piece):
                if isinstance(reply, AttackQuery):
                    session.answer_query(QueryReply([0] * len(reply.positions), labels=[0] * len(reply.positions)))
                if isinstance(reply, AnswersReply):
                    assert len(reply.labels) == 2, "an answer of another length"
            assert session._decoder.pending_bytes <= fed, "the decoder holds more than it was fed"
    except ProtocolFault as fault:
        assert not session.has_open_question, "a question is open after a fault"
        return fault.reason
    except SubmissionFault as fault:
        assert not session.has_open_question, "a question is open after a fault"
        return fault.code
    if session.has_open_question:
        return "(waiting)"
    session._decoder = frames.FrameDecoder(PAYLOAD_LIMIT)
    try:
        replies = list(session.feed(b"".join(pieces)))
    except OutputFlood:
        return "(answered)"
    raise AssertionError(f"a second answer was taken: {replies}")


@dataclass
class Report:
    """The results of a run. `seconds` is wall time, `slowest` processor time of one input; memory is in bytes."""

    inputs: int
    seconds: float
    endings: Counter[str]
    slowest: float
    growth: int


def run(inputs: int, seed: int) -> Report:
    """Plays `inputs` inputs; raises AssertionError, with the input, at the first broken property."""
    random = Random(seed)
    corpus = seeds()
    mutator = Mutator(random, corpus)
    endings: Counter[str] = Counter()
    slowest = 0.0
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun, before = time.perf_counter(), time.process_time()
    for number in range(inputs):
        chosen = random.choice(corpus)
        pieces = mutator.pieces(mutator.conversation(chosen))
        try:
            endings[play(fresh(chosen.session), pieces)] += 1
        except Exception as error:
            asked = chosen.session._open_question
            raise AssertionError(f"input {number} of seed {seed}, asked {asked}, {pieces!r}: {error!r}") from error
        now = time.process_time()
        slowest, before = max(slowest, now - before), now
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * 1024
    assert slowest < SLOWEST_SECONDS, f"an input took {slowest:.1f} s"
    assert growth < GROWTH_BYTES, f"memory grew by {growth} bytes"
    return Report(inputs, time.perf_counter() - begun, endings, slowest, growth)


def main() -> None:
    """Runs and prints the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    report = run(arguments.inputs, arguments.seed)
    sys.stdout.write(summary(report))


def summary(report: Report) -> str:
    """Returns the report as text."""
    rate = report.inputs / report.seconds
    endings = "".join(
        f"  {ending:<16} {count:>10,}  {100 * count / report.inputs:6.2f} %\n"
        for ending, count in report.endings.most_common()
    )
    return (
        f"{report.inputs:,} inputs in {report.seconds:.1f} s: {rate:,.0f} a second\n{endings}"
        f"slowest input {1000 * report.slowest:.1f} ms, memory grew by {report.growth >> 10:,} KiB, nothing broken\n"
    )


if __name__ == "__main__":
    main()
