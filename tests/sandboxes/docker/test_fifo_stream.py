"""A player's streams over FIFOs: real ones, with a thread or this test on the player's side."""

import os
import select
import socket
import stat
import struct
import threading
import time
from pathlib import Path

import pytest

from orchestrator.sandboxes.docker.attach_stream import Attachment
from orchestrator.sandboxes.docker.fifo_stream import FifoStream
from orchestrator.sandboxes.docker.player_fifos import PlayerFifos
from orchestrator.sandboxes.linux.pipe_io import CHUNK_BYTES, MAX_BUFFERED_BYTES


class Scene:
    """A stream, the engine's end of its attach stream, and the folder that a player would see."""

    def __init__(self, folder: Path) -> None:
        self.fifos = PlayerFifos.make(folder, folder / "sh")
        near, self.engine = socket.socketpair()
        self.stream = FifoStream(self.fifos.open(), Attachment(near))
        self.player: dict[str, int] = {}

    def start_player(self) -> None:
        """Opens the player's ends in the order in which the shell does; none of them waits."""
        for name, flags in (("in", os.O_RDONLY), ("out", os.O_WRONLY), ("err", os.O_WRONLY)):
            self.player[name] = os.open(self.fifos.folder / name, flags)

    def end_player(self, *names: str) -> None:
        """Closes some of the player's ends, or all."""
        for name in names or tuple(self.player):
            os.close(self.player.pop(name))

    def close(self) -> None:
        """Lets go of everything."""
        self.end_player()
        self.engine.close()
        self.stream.close()
        self.fifos.remove()


@pytest.fixture
def scene(tmp_path):
    """A stream whose player has not started."""
    made = Scene(tmp_path)
    yield made
    made.close()


def soon(seconds: float) -> float:
    """Returns the deadline that is so many seconds away."""
    return time.monotonic() + seconds


def test_a_player_may_read_one_fifo_and_write_to_two(tmp_path):
    """Whatever our umask is, others read `in` and write to `out` and `err`, and change nothing in the folder."""
    before = os.umask(0o077)
    try:
        fifos = PlayerFifos.make(tmp_path, tmp_path / "sh")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode for path in fifos.folder.iterdir()}
    assert {name: stat.S_IMODE(mode) for name, mode in modes.items() if stat.S_ISFIFO(mode)} == {
        "in": 0o644,
        "out": 0o622,
        "err": 0o622,
    }
    assert modes.keys() == {"in", "out", "err", "sh"}
    assert stat.S_IMODE(fifos.folder.stat().st_mode) == 0o755
    fifos.remove()
    assert not fifos.folder.exists()


def test_bytes_go_both_ways_and_are_counted(scene):
    """What is sent is read, what is written is received, and stderr is kept aside."""
    scene.start_player()
    assert scene.stream.send(b"question", soon(5))
    assert os.read(scene.player["in"], 100) == b"question"
    os.write(scene.player["err"], b"log")
    os.write(scene.player["out"], b"answer")
    assert scene.stream.receive(soon(5)) == b"answer"
    counts = scene.stream.stdin_bytes, scene.stream.stdout_bytes, scene.stream.stderr_bytes
    assert counts == (len(b"question"), len(b"answer"), len(b"log"))
    assert bytes(scene.stream.stderr_tail) == b"log"


def test_a_player_that_does_not_come_is_waited_for_until_the_deadline(scene):
    """Neither reading nor writing is an error before it, and a container that ends without it is an end."""
    assert scene.stream.send(b"hello", soon(5))
    assert scene.stream.receive(soon(0.05)) is None
    scene.engine.sendall(struct.pack(">BxxxI", 2, 5) + b"tini!")
    scene.engine.close()
    assert scene.stream.receive(soon(5)) == b""
    assert scene.stream.stream_ended
    assert bytes(scene.stream.stderr_tail) == b"tini!"
    assert scene.stream.stderr_bytes == len(b"tini!")


def test_a_player_that_closes_stdout_has_not_ended(scene):
    """Only the end of its container, or of the engine, ends the stream; what was left in the FIFO is read first."""
    scene.start_player()
    os.write(scene.player["out"], b"last")
    scene.end_player("out", "err")
    assert scene.stream.receive(soon(5)) == b"last"
    assert scene.stream.receive(soon(0.05)) is None
    assert not scene.stream.stream_ended
    scene.engine.close()
    assert [scene.stream.receive(soon(5)) for _ in range(2)] == [b"", b""]


def test_what_is_left_is_read_after_the_container_has_ended(scene):
    """An answer that came before the end counts, also when the end is noticed first; so does stderr."""
    scene.start_player()
    os.write(scene.player["out"], b"answer")
    os.write(scene.player["err"], b"why")
    scene.end_player()
    scene.engine.close()
    assert scene.stream.receive(soon(5)) == b"answer"
    assert scene.stream.receive(soon(5)) == b""
    assert bytes(scene.stream.stderr_tail) == b"why"


def test_a_process_that_outlives_its_container_keeps_nobody_waiting(scene):
    """Its end of a FIFO is still open, and the stream has ended all the same."""
    scene.start_player()
    scene.engine.close()
    assert scene.stream.receive(soon(5)) == b""


def test_a_player_that_reads_nothing_is_given_up_at_the_deadline(scene):
    """Its stdin is closed then, so that after half a message nothing follows."""
    scene.start_player()
    assert not scene.stream.send(bytes(4 * CHUNK_BYTES), soon(0.05))
    assert not scene.stream.send(b"more", soon(0.05))
    read = 0
    while data := os.read(scene.player["in"], CHUNK_BYTES):
        read += len(data)
    assert read == scene.stream.stdin_bytes < 4 * CHUNK_BYTES


def test_an_operator_that_cancels_is_asked_while_a_player_reads_nothing(scene):
    """The wait ends long before the deadline."""
    scene.start_player()
    begun = time.monotonic()
    assert not scene.stream.send(bytes(4 * CHUNK_BYTES), soon(60), lambda: True)
    assert time.monotonic() - begun < 30


def test_two_full_pipes_do_not_wait_for_each_other(scene):
    """A player that answers before it has read everything is read from meanwhile."""
    scene.start_player()
    size = 6 * CHUNK_BYTES

    def echo() -> None:
        left = size
        while left:
            data = os.read(scene.player["in"], 65536)
            left -= len(data)
            while data:
                data = data[os.write(scene.player["out"], data) :]

    player = threading.Thread(target=echo)
    player.start()
    assert scene.stream.send(bytes(size), soon(60))
    heard = 0
    while heard < size:
        heard += len(scene.stream.receive(soon(60)))
    player.join()
    assert heard == size


@pytest.mark.slow
def test_a_flood_is_left_in_the_fifo(scene):
    """No more than 16 MiB and one read are held while a player is written to that only writes."""
    scene.start_player()
    stop = threading.Event()
    os.set_blocking(scene.player["out"], False)

    def flood() -> None:
        poll = select.poll()
        poll.register(scene.player["out"], select.POLLOUT)
        while not stop.is_set():
            if poll.poll(10):
                os.write(scene.player["out"], bytes(65536))

    player = threading.Thread(target=flood)
    player.start()
    try:
        assert not scene.stream.send(bytes(4 * CHUNK_BYTES), soon(3))
    finally:
        stop.set()
        player.join()
    assert scene.stream.stdout_bytes <= MAX_BUFFERED_BYTES + CHUNK_BYTES


def test_draining_takes_a_bounded_amount(scene):
    """What a player wrote and nobody asked for is dropped; its stderr is kept."""
    scene.start_player()
    os.write(scene.player["out"], b"unasked")
    os.write(scene.player["err"], b"kept")
    scene.stream.drain()
    assert scene.stream.receive(soon(0)) is None
    assert bytes(scene.stream.stderr_tail) == b"kept"


def test_closing_twice_closes_once(scene):
    """Its handles may be somebody else's by then; the stream has ended."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    scene.stream.close()
    taken = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
    scene.stream.close()
    for handle in taken:
        os.close(handle)
    assert len(list(Path("/proc/self/fd").iterdir())) < before
    assert scene.stream.receive(soon(0)) == b""
    assert not scene.stream.send(b"x", soon(0))
