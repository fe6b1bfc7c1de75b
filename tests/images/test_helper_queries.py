"""`task.ask` of the participant's helper: an attack asks a defence, within what is left; what a student is told."""

import numpy as np
import pytest

from orchestrator.errors import PlayerReported
from orchestrator.protocol.messages import QueriesHeader, Refusal, Role, Want
from orchestrator.protocol.session import AttackQuery, QueryReply

from .conftest import ATTACK, PIXELS

PRICES = {Want.DECISION: 1, Want.SCORES: 2, Want.GRADIENT: 5}
QUERIES = QueriesHeader(per_picture=10, batch=2, prices=PRICES)


class Answers:
    """A defence that knows a picture by its first value, and what each position has left."""

    def __init__(self, player, queries: QueriesHeader = QUERIES) -> None:
        self.player, self.queries = player, queries
        self.left: list[int] = []
        self.asked: list[tuple] = []

    def perturb(self, pixels: np.ndarray) -> np.ndarray:
        """Puts a question to the attack, answers its queries, and returns its candidates."""
        self.left = [self.queries.per_picture] * len(pixels)
        made = np.zeros_like(pixels)
        for replies in self.player.each(self.player.session.ask_perturb(pixels, None)):
            for reply in replies:
                if isinstance(reply, AttackQuery):
                    self.player.process.stdin.write(self.player.session.answer_query(self.answer(reply)))
                    self.player.process.stdin.flush()
                else:
                    made[list(reply.index)] = reply.pixels
        return made

    def answer(self, query: AttackQuery) -> QueryReply:
        """Returns the answer to a query: even values are not answered."""
        self.asked.append((query.want, len(query.pixels), query.positions))
        for position in query.positions:
            self.left[position] -= self.queries.prices[query.want]
        left, first = [self.left[position] for position in query.positions], query.pixels[:, 0, 0, 0]
        if min(left) < 0:
            return QueryReply(left, refused=Refusal.BUDGET)
        if query.want is Want.DECISION:
            labels = [int(value) % 10 if value % 2 else None for value in first]
            return QueryReply(left, labels=labels)
        shape = (len(first), 10) if query.want is Want.SCORES else query.pixels.shape
        values = np.broadcast_to(np.where(first % 2, first, np.nan).reshape(-1, *[1] * (len(shape) - 1)), shape)
        return QueryReply(left, values=values)


@pytest.fixture
def answers(written):
    """Starts an attack whose `perturb` has these lines, and returns what asks it and answers its queries."""

    def begin(body: str, queries: QueriesHeader | None = QUERIES) -> Answers:
        return Answers(written(ATTACK.format(body=body), Role.ATTACK, queries=queries))

    return begin


def test_an_attack_asks_and_goes_on(answers) -> None:
    """Labels come back in order, -1 where there is none; a long query goes in parts; every position is charged."""
    body = """
        assert self.task.queries["per_picture"] == 10
        assert self.task.left.tolist() == [10, 10, 10]
        labels = self.task.ask(pixels + np.uint8(1))
        assert labels.tolist() == [1, 5, 9], labels
        assert self.task.ask(pixels[:2], positions=[2, 2]).tolist() == [-1, -1]
        assert self.task.ask(pixels[0] + np.uint8(3), positions=1).tolist() == [3]
        assert self.task.left.tolist() == [9, 8, 7]
        return pixels + np.uint8(1)
"""
    defence = answers(body)
    pixels = PIXELS - PIXELS[:, :1, :1, :1] + np.array([0, 4, 8], np.uint8).reshape(3, 1, 1, 1)
    assert (defence.perturb(pixels) == pixels + 1).all()
    decision = Want.DECISION
    assert defence.asked == [(decision, 2, (0, 1)), (decision, 1, (2,)), (decision, 2, (2, 2)), (decision, 1, (1,))]
    assert (defence.perturb(pixels) == pixels + 1).all()  # the next question has a budget of its own


def test_scores_and_gradients_are_arrays(answers) -> None:
    """Of the shape of classes and of the pictures; NaN where the defence gave nothing."""
    body = """
        pixels[:, 0, 0, 0] = [1, 2, 3]
        scores = self.task.ask(pixels, want="scores")
        assert scores.shape == (3, 10) and scores.dtype == np.float32
        assert scores[0, 0] == 1 and np.isnan(scores[1]).all() and scores[2, 9] == 3
        slopes = self.task.ask(pixels[:1], positions=[0], want="gradient")
        assert slopes.shape == (1, 1, 8, 8) and (slopes == 1).all()
        assert self.task.left.tolist() == [3, 8, 8]
        return pixels
"""
    answers(body).perturb(PIXELS)


def test_what_is_not_left_is_not_asked(answers) -> None:
    """Nothing of a query that costs too much is asked, however many parts it has; the attack may still deliver."""
    body = """
        from sparring_player import BudgetSpent
        for count in (11, 3):
            try:
                self.task.ask(np.repeat(pixels[:1], count, 0), positions=[0] * count, want="gradient")
            except BudgetSpent as error:
                assert "positions [0] have [10] left" in str(error), error
            else:
                raise AssertionError("asked")
        return pixels
"""
    defence = answers(body)
    defence.perturb(PIXELS)
    assert defence.asked == []


def test_a_refusal_is_the_same_to_an_attack(answers) -> None:
    """Where the orchestrator counts otherwise, its word counts."""
    body = """
        from sparring_player import BudgetSpent
        self.task.ask(pixels)
        try:
            self.task.ask(pixels)
        except BudgetSpent as error:
            assert "refused: budget" in str(error)
            assert self.task.left.min() < 0
            return pixels
"""
    defence = answers(body)
    defence.queries = QueriesHeader(per_picture=10, batch=2, prices={Want.DECISION: 6})
    defence.perturb(PIXELS)


@pytest.mark.parametrize(
    ("body", "queries", "told"),
    [
        ("return self.task.ask(pixels)", None, "allows no queries for 'decision', but for nothing"),
        (
            "return self.task.ask(pixels, want='logits')",
            QUERIES,
            "'logits', but for ['decision', 'gradient', 'scores']",
        ),
        ("return self.task.ask(pixels / 255)", QUERIES, "pixels must be uint8"),
        ("return self.task.ask(pixels[:2])", QUERIES, "2 pictures for a question of 3: say for which"),
        ("return self.task.ask(pixels, positions=[0, 1])", QUERIES, "positions must be 3 numbers from 0 to 2"),
        ("return self.task.ask(pixels[0], positions=3)", QUERIES, "positions must be 1 numbers from 0 to 2"),
        ("yield 0, pixels[0]; self.task.ask(pixels[0], positions=0)", QUERIES, "positions [0] have [0] left"),
    ],
)
def test_a_student_is_told_what_is_wrong(answers, body, queries, told) -> None:
    """Before anything is asked, and in words that say what would be right."""
    defence = answers(body, queries)
    with pytest.raises(PlayerReported) as caught:
        defence.perturb(PIXELS)
    assert told in str(caught.value).replace("\\'", "'")
    assert defence.asked == []


def test_outside_of_a_question_nobody_is_asked(written) -> None:
    """There is no picture that it could be charged to."""
    source = ATTACK.format(body="return pixels").replace("self.task = task", "task.ask(np.zeros((1, 8, 8), np.uint8))")
    player = written(source, Role.ATTACK, greet=False, queries=QUERIES)
    with pytest.raises(PlayerReported, match="ask belongs into perturb"):
        player.hello()
