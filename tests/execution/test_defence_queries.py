"""What is kept of the queries of a step, and for whom."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from orchestrator.execution.defence_queries import DefenceQueries
from orchestrator.execution.query_sample import QuestionSample
from orchestrator.ledger.stores.base import get_array
from orchestrator.ledger.stores.memory import MemoryBlobs
from orchestrator.protocol.session import AnswersReply

from .conftest import QUICK, ScriptedPool

CLASSES = 3


class Player:
    """Reads every picture as class 1, with scores and gradients."""

    gives_gradients = True

    def classify(self, pixels, limits):
        """Returns labels and scores."""
        del limits
        scores = np.tile(np.eye(CLASSES, dtype=np.float32)[1], (len(pixels), 1))
        return AnswersReply([1] * len(pixels), scores)

    def gradient(self, pixels, labels, limits):
        """Returns a gradient of one everywhere."""
        del labels, limits
        return np.ones(pixels.shape, np.float32)


@pytest.fixture
def blobs():
    """Where arrays are kept."""
    return MemoryBlobs()


@pytest.fixture
def queries(blobs):
    """Returns a function that makes the queries of a step."""

    def make(*, resumable) -> DefenceQueries:
        context: Any = SimpleNamespace(
            limits=QUICK, clock=lambda: 0.0, blobs=blobs, task=SimpleNamespace(classes=("a", "b", "c"))
        )
        sample = QuestionSample(np.random.default_rng(0), 0)
        return DefenceQueries(ScriptedPool(Player), context, sample, resumable=resumable)

    return make


def ask(queries, count=2):
    """Asks about some pictures."""
    return queries.ask(np.zeros((count, 1, 2, 2), np.uint8), np.arange(count, dtype=np.int32))


def test_a_step_that_goes_on_elsewhere_keeps_all_answers_and_scores(queries, blobs):
    """Another process answers the same queries from them."""
    asked = queries(resumable=True)
    ask(asked)
    ask(asked, 3)
    left = asked.partial_step(4)
    assert left.completed == 5
    assert get_array(blobs, left.blobs["answers"]).tolist() == [1] * 5
    assert get_array(blobs, left.blobs["scores"]).shape == (5, CLASSES)


def test_a_step_that_goes_on_nowhere_keeps_no_scores(queries):
    """Those of many classes would fill the memory: what is on record of a query is its answer."""
    asked = queries(resumable=False)
    replies = ask(asked)
    assert replies.scores.shape == (2, CLASSES)
    assert asked.partial_step(4) is None
    assert asked.replies().tolist() == [[0, 1], [1, 1]]
    kept = [each for value in vars(asked).values() if isinstance(value, list) for each in value]
    assert not [each for each in kept if isinstance(each, np.ndarray) and each.ndim > 1]


def test_a_step_that_asked_for_gradients_begins_anew(queries):
    """They are not kept, so nobody could answer the same queries again."""
    asked = queries(resumable=True)
    ask(asked)
    asked.ask_gradients(np.zeros((2, 1, 2, 2), np.uint8), np.zeros(2, np.int64), np.arange(2, dtype=np.int32))
    ask(asked)
    assert asked.partial_step(4) is None
    assert len(asked.replies()) == 6
