"""A player that is not written in Python plays both sides: the protocol needs no language."""

import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from orchestrator.errors import PlayerReported
from orchestrator.protocol import frames
from orchestrator.protocol.messages import Capability, Role
from orchestrator.protocol.session import PlayerReply, Session

PLAYER = Path(__file__).parent / "players" / "invert_player.mjs"
SECONDS = 20.0


@dataclass
class Pipes:
    """A player at the other end of two pipes."""

    process: subprocess.Popen[bytes]
    session: Session

    def ask(self, question: bytes) -> list[PlayerReply]:
        """Returns the replies that close the question."""
        self.process.stdin.write(question)
        self.process.stdin.flush()
        return self.hear()

    def hear(self) -> list[PlayerReply]:
        """Returns the replies that close the open question."""
        replies: list[PlayerReply] = []
        while self.session.has_open_question:
            replies += self.session.feed(self.read())
        return replies

    def read(self) -> bytes:
        """Returns what the player wrote; fails after `SECONDS` without a byte."""
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        assert ready, "the player is silent"
        return os.read(self.process.stdout.fileno(), 1 << 20)


@pytest.fixture(scope="module")
def node() -> str:
    """The Node program; skips without it, unless SPARRING_REQUIRE holds `node`."""
    found = shutil.which("node")
    if found is None:
        absent = "node is not on this machine"
        if "node" in os.environ.get("SPARRING_REQUIRE", "").replace(",", " ").split():
            pytest.fail(absent)
        pytest.skip(absent)
    return found


@pytest.fixture
def play(node, hello) -> Iterator:
    """Starts the player for one side, after its greeting; ends it afterwards."""
    started = []

    def start(role: Role, **changes: object) -> Pipes:
        process = subprocess.Popen([node, str(PLAYER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        pipes = Pipes(process, Session(role, 10, 1 << 24))
        started.append(process)
        task = hello["task"].model_copy(update=changes)
        [greeted] = pipes.ask(pipes.session.ask_hello(task, hello["limits"], hello["seed"]))
        assert greeted.name == "brightness (Node)"
        expected = {Capability.LABEL, Capability.SCORES} if role is Role.DEFENCE else set()
        assert greeted.capabilities == expected
        return pipes

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_a_node_defence_classifies_and_leaves(play):
    """It answers two questions with labels and scores, and ends by itself with code 0 after bye."""
    pipes = play(Role.DEFENCE)
    pixels = np.stack([np.full((1, 2, 2), value, np.uint8) for value in (0, 25, 27, 130, 255)])
    for _ in range(2):
        [answer] = pipes.ask(pipes.session.ask_classify(pixels))
        assert answer.labels == (0, 0, 1, 5, 9)
        assert answer.scores.argmax(axis=1).tolist() == [0, 0, 1, 5, 9]
    pipes.process.stdin.write(pipes.session.close_conversation())
    pipes.process.stdin.flush()
    assert pipes.read() == b""
    assert pipes.process.wait(SECONDS) == 0


def test_a_node_attack_stays_within_linf(play):
    """Every value of every picture moves by 1, in two messages, over questions larger than a pipe holds."""
    pipes = play(Role.ATTACK)
    pixels = np.random.default_rng(0).integers(0, 256, (63, 3, 32, 32), np.uint8)
    replies = pipes.ask(pipes.session.ask_perturb(pixels, [0] * 63))
    assert [len(reply.index) for reply in replies] == [32, 31]
    for reply in replies:
        distance = np.abs(reply.pixels.astype(int) - pixels[list(reply.index)].astype(int))
        assert (distance == 1).all()


def test_a_node_attack_stays_within_l2(play, hello):
    """With an L2 budget of 3 steps nine values of a picture move, so that the distance is 3."""
    budget = hello["task"].budget.model_copy(update={"norm": "l2", "epsilon": 3.0})
    pipes = play(Role.ATTACK, budget=budget)
    pixels = np.full((1, 1, 4, 4), 200, np.uint8)
    [reply] = pipes.ask(pipes.session.ask_perturb(pixels, None))
    assert np.linalg.norm(reply.pixels.astype(float) - pixels) == 3.0


def test_an_unknown_question_is_reported(play):
    """What the player does not know it says, by `fault`."""
    pipes = play(Role.DEFENCE)
    pipes.session.ask_classify(np.zeros((1, 1, 2, 2), np.uint8))
    with pytest.raises(PlayerReported, match="'unsupported': no answer to gradient"):
        pipes.ask(frames.encode_frame({"type": "gradient", "id": 2, "labels": [1]}))


def test_the_player_cuts_frames_itself(play):
    """A question that arrives byte by byte is the same question."""
    pipes = play(Role.DEFENCE)
    question = pipes.session.ask_classify(np.full((1, 1, 2, 2), 255, np.uint8))
    for at in range(len(question)):
        pipes.process.stdin.write(question[at : at + 1])
        pipes.process.stdin.flush()
        time.sleep(0.0005)
    [answer] = pipes.hear()
    assert answer.labels == (9,)
