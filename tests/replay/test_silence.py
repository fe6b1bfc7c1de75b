"""A silence before a question is one that the player lives through."""

import numpy as np

from orchestrator.arena import steps
from orchestrator.arena.casting import Casting
from orchestrator.arena.fault_budget import FaultBudget
from orchestrator.arena.steps import Questions
from orchestrator.domain.tasks import Limits
from orchestrator.wire.session import Answered


class Clocked:
    """A player that answers by how long it has been there."""

    def __init__(self, now: list[float]) -> None:
        self.now, self.started = now, now[0]

    def classify(self, pixels, limits) -> Answered:
        """Returns whole seconds since its start."""
        return Answered(tuple([int(self.now[0] - self.started)] * len(pixels)), None)


def test_a_sandbox_is_started_before_the_silence() -> None:
    """Waiting for a sandbox that is not there yet would show nothing of its clock."""
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    casting = Casting(lambda: Clocked(now), [], FaultBudget(), ahead=False)
    questions = Questions(Limits(), 1, {0: 30.0, 2: 5.0}, sleep)
    said = steps.Asked.nothing(3)
    steps.ask(casting, questions, [np.zeros((1, 2, 2), np.uint8)] * 3, lambda: now[0], said)
    assert said.answers.tolist() == [30, 30, 35]
    assert said.at.tolist() == [30, 30, 35]
    assert said.seconds == 0
