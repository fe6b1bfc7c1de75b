"""A silence before a question is one that the player lives through."""

import numpy as np

from orchestrator.domain.tasks import Limits
from orchestrator.execution import player_questions
from orchestrator.execution.player_questions import QuestionPlan
from orchestrator.protocol.session import AnswersReply
from tests.execution.conftest import ScriptedPool


class Clocked:
    """A player that answers by how long it has been there."""

    def __init__(self, now: list[float]) -> None:
        self.now, self.started = now, now[0]

    def classify(self, pixels, limits, seeds=None) -> AnswersReply:
        """Returns whole seconds since its start."""
        return AnswersReply(tuple([int(self.now[0] - self.started)] * len(pixels)), None)


def test_a_sandbox_is_started_before_the_silence() -> None:
    """Waiting for a sandbox that is not there yet would show nothing of its clock."""
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    pool = ScriptedPool(lambda: Clocked(now))
    questions = QuestionPlan(Limits(), 1, {0: 30.0, 2: 5.0}, sleep)
    said = player_questions.DefenceAnswers.empty(3)
    player_questions.ask_defence(pool, questions, [np.zeros((1, 2, 2), np.uint8)] * 3, lambda: now[0], said)
    assert said.answers.tolist() == [30, 30, 35]
    assert said.answer_times.tolist() == [30, 30, 35]
    assert said.seconds == 0
