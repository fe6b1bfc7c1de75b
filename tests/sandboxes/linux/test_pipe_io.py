"""How a player's output is taken from its pipe."""

import os

from orchestrator.sandboxes.linux.pipe_io import CHUNK_BYTES
from orchestrator.sandboxes.linux.process_pipes import ProcessPipes, StandardPipes


class Pipes(ProcessPipes):
    """Our ends of three pipes whose other ends the test has; the process is the test's own."""

    def __init__(self, pipes: StandardPipes) -> None:
        super().__init__(pipes, os.pidfd_open(os.getpid()))

    def _sample(self) -> None:
        pass


def test_little_is_read_at_a_time_until_there_is_much() -> None:
    """A small answer takes a small buffer; after a read that was full the next takes all that may be taken at once."""
    pipes = StandardPipes.open()
    player = Pipes(pipes)
    try:
        os.write(pipes.theirs[1], b"answer")
        assert player.receive(0) == b"answer"
        os.set_blocking(pipes.theirs[1], False)
        sent = os.write(pipes.theirs[1], bytes(CHUNK_BYTES // 2))
        pieces = [player.receive(0), player.receive(0), player.receive(0)]
        assert [len(piece or b"") for piece in pieces] == [65_536, sent - 65_536, 0]
    finally:
        player._close_pipes()
        pipes.close_theirs()
