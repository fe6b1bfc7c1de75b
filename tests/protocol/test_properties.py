"""What holds for every frame, every cut of the stream and every kind of rubbish."""

import struct
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import OutputFlood, ProtocolFault, SubmissionFault
from orchestrator.protocol import frames
from orchestrator.protocol.frames import SAFE_INTEGER, FrameDecoder, encode_frame
from orchestrator.protocol.messages import BudgetHeader, LimitsHeader, Role, TaskHeader
from orchestrator.protocol.session import CandidatesReply, Session

LIMIT = 4096
COUNT = 3
PIXELS = np.zeros((COUNT, 1, 2, 2), np.uint8)
HELLO = {
    "task": TaskHeader(name="t", classes=["a", "b"], shape=[1, 2, 2], budget=BudgetHeader(norm="linf", epsilon=8)),
    "limits": LimitsHeader(ready_seconds=1, step_seconds=1, batch=COUNT, payload_bytes=0, memory_bytes=1, threads=1),
    "seed": 0,
}

calm = settings(deadline=None)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-SAFE_INTEGER, SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
headers = st.dictionaries(st.text(max_size=8), values, max_size=5)
payloads = st.binary(max_size=200)
cuts = st.lists(st.integers(0, 2000), max_size=12)


def pieces(data: bytes, places: list[int]) -> list[bytes]:
    """Returns the data cut at the places that lie in it."""
    edges = [0, *sorted({place for place in places if place < len(data)}), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def decode(parts: list[bytes]) -> tuple[list[tuple[dict, bytes]], str | None]:
    """Returns the frames in the parts, and the reason of the fault they end in."""
    decoder, found, fed = FrameDecoder(LIMIT), [], 0
    for part in parts:
        decoder.feed(part)
        fed += len(part)
        try:
            while frame := decoder.next_frame():
                found.append((dict(frame.header), bytes(frame.payload)))
        except ProtocolFault as fault:
            assert decoder.pending_bytes == 0
            return found, fault.reason
        assert decoder.pending_bytes <= fed
    return found, None


def asked(role: Role) -> Session:
    """Returns a session whose second question is open, without queries."""
    session = Session(role, 2, LIMIT)
    session.ask_hello(**HELLO)
    list(session.feed(encode_frame({"type": "ready", "id": 1})))
    if role is Role.ATTACK:
        session.ask_perturb(PIXELS, None)
    else:
        session.ask_classify(PIXELS)
    return session


def converse(role: Role, parts: list[bytes]) -> tuple[list[str], str]:
    """Returns the replies in words, and how the conversation ended."""
    session, replies = asked(role), []
    try:
        for part in [*parts, b""]:
            for reply in session.feed(part):
                replies.append(repr(reply))  # noqa: PERF401  one by one: a fault may follow
    except ProtocolFault as fault:
        return replies, fault.reason
    except SubmissionFault as fault:
        return replies, fault.code
    return replies, "waiting" if session.has_open_question else "answered"


def delivery(index: list[int], identity: int = 2) -> bytes:
    """Returns a candidates message for these positions."""
    shape = [max(len(index), 1), 1, 2, 2]
    header = {"type": "candidates", "id": identity, "dtype": "u8", "shape": shape, "index": index}
    return encode_frame(header, bytes(4 * shape[0]))


answers = st.builds(
    lambda identity, labels: encode_frame({"type": "answers", "id": identity, "labels": labels}),
    st.sampled_from([2, 2, 2, 1, 3]),
    st.lists(st.sampled_from([0, 1, None, 2]), min_size=2, max_size=4),
)
deliveries = st.builds(delivery, st.lists(st.integers(0, COUNT), max_size=COUNT), st.sampled_from([2, 2, 2, 2, 1]))
noise = st.builds(encode_frame, headers, payloads) | st.binary(max_size=40)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A conversation that is right here and there, with a few bytes changed, taken out or put in."""
    data = bytearray(b"".join(draw(st.lists(answers | deliveries | noise, min_size=1, max_size=4))))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


@pytest.mark.slow
@calm
@given(headers, payloads)
def test_what_is_encoded_is_decoded(header, payload):
    """Every JSON object and every payload come back as they were."""
    assert decode([encode_frame(header, payload)]) == ([(header, payload)], None)


@pytest.mark.slow
@calm
@given(st.lists(st.tuples(headers, payloads), max_size=5), cuts)
def test_where_the_stream_is_cut_makes_no_difference(messages, places):
    """The same frames come out however the pipe cuts their bytes."""
    stream = b"".join(encode_frame(*message) for message in messages)
    assert decode(pieces(stream, places)) == (messages, None)


@calm
@given(st.binary(max_size=300) | st.binary(max_size=300).map(b"SPI1".__add__), cuts)
def test_rubbish_is_only_a_fault(data, places):
    """Arbitrary bytes end in frames, in a fault or in waiting, and the cut makes no difference."""
    assert decode(pieces(data, places)) == decode([data])


@calm
@given(st.binary(max_size=200))
def test_rubbish_in_a_header_is_only_a_fault(text):
    """Arbitrary bytes between correct lengths are JSON or the fault `json`, and what follows them is untouched."""
    found, reason = decode([b"SPI1" + struct.pack("<II", len(text), 2) + text + b"ab" + encode_frame({"next": 1})])
    assert reason == "json" or found[1] == ({"next": 1}, b"")


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(Role), mutated(), cuts)
def test_a_conversation_ends_the_same_however_it_is_cut(role, data, places):
    """A mutated conversation gives the same replies and the same ending whole, cut anywhere and byte by byte."""
    whole = converse(role, [data])
    assert converse(role, pieces(data, places)) == whole
    assert converse(role, [data[at : at + 1] for at in range(len(data))]) == whole


@calm
@given(st.lists(st.lists(st.integers(0, COUNT), min_size=1, max_size=COUNT), max_size=6))
def test_no_position_is_delivered_twice(indexes):
    """Whatever positions an attack names, each arrives at most once, and only those that were asked for."""
    session, seen = asked(Role.ATTACK), []
    try:
        for index in indexes:
            for reply in session.feed(delivery(index)):
                assert isinstance(reply, CandidatesReply)
                seen += reply.index
    except (ProtocolFault, OutputFlood):
        assert not session.has_open_question
    assert len(set(seen)) == len(seen)
    assert set(seen) | session.undelivered == set(range(COUNT))


@calm
@given(st.sampled_from(Role), st.lists(st.sampled_from([2, 3]), min_size=1, max_size=5), cuts)
def test_a_question_is_answered_once(role, identities, places):
    """However often and early a player answers, one question takes one answer."""
    whole = list(range(COUNT))
    answer = (
        delivery
        if role is Role.ATTACK
        else lambda _, i: encode_frame({"type": "answers", "id": i, "labels": [0] * COUNT})
    )
    stream = b"".join(answer(whole, identity) for identity in identities)
    replies, ending = converse(role, pieces(stream, places))
    assert len(replies) == (identities[0] == 2)
    if identities[0] != 2:
        assert ending == "id"
    else:
        assert ending == ("answered" if len(identities) == 1 else OutputFlood.code)


@calm
@given(st.integers(0, frames.PAYLOAD_LIMIT), st.lists(st.binary(max_size=50), max_size=8))
def test_the_decoder_holds_what_it_was_fed(length, parts):
    """Whatever length is announced, what waits is no more than what came."""
    decoder = FrameDecoder(frames.PAYLOAD_LIMIT)
    decoder.feed(b"SPI1" + struct.pack("<II", 2, length) + b"{}")
    for part in parts:
        decoder.feed(part)
    if sum(map(len, parts)) < length:
        assert decoder.next_frame() is None
        assert decoder.pending_bytes == 14 + sum(map(len, parts))
    else:
        assert len(decoder.next_frame().payload) == length
