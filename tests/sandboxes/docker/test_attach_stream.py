"""The engine's stream, taken apart."""

import socket
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.docker import attach_stream
from orchestrator.sandboxes.docker.attach_stream import Attachment, Demultiplexer
from orchestrator.sandboxes.docker.engine_socket import ResponseHead
from orchestrator.sandboxes.linux.pipe_io import CHUNK_BYTES, MAX_BUFFERED_BYTES, OutputBuffer

parts = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=50)), max_size=12)


def framed(kind: int, data: bytes) -> bytes:
    """Returns one frame as the engine writes it."""
    return struct.pack(">BxxxI", kind, len(data)) + data


@pytest.fixture
def pair():
    """An attachment and the engine's end of its line."""
    near, far = socket.socketpair()
    attachment = Attachment(near)
    yield attachment, far
    attachment.close()
    far.close()


@given(parts, st.lists(st.integers(1, 40), max_size=60))
def test_any_cut_gives_the_same_streams(frames, sizes):
    """However the stream is cut into reads, stdout and stderr come out whole and in order."""
    stream = b"".join(framed(kind, data) for kind, data in frames)
    demultiplexer = Demultiplexer()
    heard = {True: b"", False: b""}
    at = 0
    for size in [*sizes, len(stream)]:
        for stdout, part in demultiplexer.feed(stream[at : at + size]):
            heard[stdout] += part
        at += size
    assert heard[True] == b"".join(data for kind, data in frames if kind == 1)
    assert heard[False] == b"".join(data for kind, data in frames if kind == 2)


@pytest.mark.parametrize("kind", [0, 3, 255])
def test_a_frame_of_another_kind_is_the_engines_fault(kind):
    """What is neither stdout nor stderr is a fault of the engine, never of the player."""
    with pytest.raises(SandboxLost, match=f"kind {kind}"):
        list(Demultiplexer().feed(framed(kind, b"x")))


def test_stderr_goes_to_the_tail_and_stdout_to_the_reader(pair):
    """A read returns stdout only; stderr is kept aside."""
    attachment, far = pair
    far.sendall(framed(2, b"log") + framed(1, b"answer") + framed(2, b" more"))
    assert attachment.receive(time.monotonic() + 5) == b"answer"
    assert bytes(attachment.stderr_tail) == b"log more"


def test_a_hang_up_is_the_end_and_stays_it(pair):
    """When the engine hangs up, what came before is returned first."""
    attachment, far = pair
    far.sendall(framed(1, b"last"))
    far.close()
    assert attachment.receive(time.monotonic() + 5) == b"last"
    assert [attachment.receive(time.monotonic() + 5) for _ in range(3)] == [b"", b"", b""]


def test_a_refused_attach_is_a_lost_sandbox(tmp_path, monkeypatch):
    """An engine that answers with an error, or not at all, has lost the sandbox; its words are made printable."""
    path = str(tmp_path / "engine")
    with socket.socket(socket.AF_UNIX) as listener:
        with pytest.raises(SandboxLost):
            Attachment.open(path, "1.41", "c", 1)
        listener.bind(path)
        listener.listen()
        with pytest.raises(SandboxLost, match="timed out"):
            Attachment.open(path, "1.41", "c", 0.1)
    near, far = socket.socketpair()
    head = ResponseHead(404, b"HTTP/1.1 404 Not Found", b"no \x1b[31m such")
    monkeypatch.setattr(attach_stream, "open_stream", lambda *_: (near, head))
    with near, far:
        with pytest.raises(SandboxLost, match=r"404 Not Found no \\x1b\[31m such"):
            Attachment.open(path, "1.41", "c", 1)
        assert near.fileno() == -1


def test_frames_that_come_with_the_answer_are_not_lost(monkeypatch):
    """An engine may send what a player says together with the head of its answer."""
    near, far = socket.socketpair()
    head = ResponseHead(101, b"HTTP/1.1 101 UPGRADED", framed(1, b"first")[:9])
    monkeypatch.setattr(attach_stream, "open_stream", lambda *_: (near, head))
    with far:
        attachment = Attachment.open("engine", "1.41", "c", 1)
        far.sendall(framed(1, b"first")[9:])
        heard = b""
        while len(heard) < len(b"first"):
            heard += attachment.receive(time.monotonic() + 5)
        assert heard == b"first"
        attachment.close()


def test_what_is_held_is_handed_out_in_bounded_pieces():
    """A piece is at most 1 MiB, and order and sum are kept."""
    held = OutputBuffer()
    data = bytes(range(256)) * (CHUNK_BYTES // 64)
    held.add(data)
    held.add(b"")
    pieces = []
    while held.size:
        pieces.append(held.take())
    assert max(map(len, pieces)) == CHUNK_BYTES
    assert b"".join(pieces) == data
    assert held.take() == b""


def test_holding_has_a_bound():
    """At 16 MiB there is enough."""
    held = OutputBuffer()
    held.add(bytes(MAX_BUFFERED_BYTES - 1))
    assert not held.is_full
    held.add(b"x")
    assert held.is_full
