"""What is kept of the queries of a step, and for whom."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from orchestrator.domain.outcomes import NOT_ASKED
from orchestrator.domain.query_transcript import FullTranscript, TranscriptChain
from orchestrator.execution import defence_queries
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

    def classify(self, pixels, limits, seeds=None):
        """Returns labels and scores."""
        del limits, seeds
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

    def make(player=Player, **options) -> DefenceQueries:
        context: Any = SimpleNamespace(
            limits=QUICK, clock=lambda: 0.0, blobs=blobs, task=SimpleNamespace(classes=("a", "b", "c"), shape=(1, 2, 2))
        )
        sample = QuestionSample(np.random.default_rng(0), 0)
        return DefenceQueries(ScriptedPool(player), context, sample, **options)

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
    assert asked.replies().tolist() == [[0, 1, 1], [1, 1, 1]]
    assert not asked.transcript_arrays()


def ask_gradients(queries, count=2, price=1):
    """Asks for gradients at some pictures."""
    pictures = np.arange(count, dtype=np.int32)
    return queries.ask_gradients(np.zeros((count, 1, 2, 2), np.uint8), np.zeros(count, np.int64), pictures, price)


class Silent:
    """A defence that no process may ask again."""

    def __init__(self) -> None:
        raise AssertionError


def test_a_step_that_asked_for_gradients_goes_on_elsewhere(queries):
    """The same queries get the same scores and gradients there without the defence, and the transcript is the same."""
    asked = queries(resumable=True)
    ask(asked)
    first = ask_gradients(asked, 3, price=2)
    left = asked.partial_step(4)
    again = queries(Silent, resumed=left, resumable=True)
    assert np.array_equal(ask(again).scores, ask(queries(resumable=True)).scores)
    replies = ask_gradients(again, 3, price=2)
    assert np.array_equal(replies.gradients, first.gradients)
    assert replies.answers.tolist() == [NOT_ASKED] * 3
    assert again.transcript == asked.transcript
    assert again.replies().tolist() == [[0, 1, 1], [1, 1, 1], *([number, NOT_ASKED, 2] for number in range(3))]


def test_a_query_of_another_kind_is_another_query(queries):
    """Who asked for labels, and now asks for gradients at the same pictures, is not told what was answered then."""
    asked = queries(resumable=True)
    ask(asked)
    again = queries(resumed=asked.partial_step(4), resumable=True)
    assert (ask_gradients(again).gradients == 1).all()
    assert again.partial_step(4).divergences == 1


def test_gradients_that_are_too_large_to_be_carried_over_are_not_kept(queries, monkeypatch):
    """The step is played on; where it has to go on elsewhere there is nothing to go on with."""
    monkeypatch.setattr(defence_queries, "MAX_TRANSCRIPT_BYTES", 3 * 16)
    asked = queries(resumable=True)
    ask_gradients(asked, 3)
    assert asked.partial_step(4) is not None
    ask_gradients(asked, 1)
    assert asked.partial_step(4) is None
    assert len(asked.replies()) == 4


def test_a_full_transcript_is_what_its_digest_was_made_of(queries):
    """Pictures, scores and gradients of every query; a changed answer, score or gradient gives another digest."""
    asked = queries(full=True)
    ask(asked)
    ask_gradients(asked, 3)
    ask(asked, 1)
    arrays, answers = asked.transcript_arrays(), asked.replies()[:, 1]
    kept = FullTranscript.from_arrays(arrays, (1, 2, 2), CLASSES)
    assert [kept.shown.shape, kept.shown_scores.shape, kept.shown_gradients.shape] == [(6, 1, 2, 2), (3, 3), (3, 4)]
    assert kept.digest(answers) == asked.transcript
    assert kept.digest(answers + 1) != asked.transcript
    for name in ("shown", "shown_scores", "shown_gradients"):
        other = FullTranscript.from_arrays(arrays | {name: arrays[name] + 1}, (1, 2, 2), CLASSES)
        assert other.digest(answers) != asked.transcript


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("shown", lambda array: array[1:], "its shown_queries are int32 (2, 2), not int32 (1, 2)"),
        ("shown", lambda array: array.astype(np.int16), "its shown are int16"),
        ("shown_scores", lambda array: array[1:], "its shown_scores are float32 (1, 3), not float32 (2, 3)"),
        ("shown_gradients", lambda array: np.ones((1, 4), np.float32), "its shown_gradients are float32 (1, 4)"),
        ("shown_queries", lambda array: array + np.int32([1, 0]), "its queries are not numbered in order"),
    ],
)
def test_arrays_that_are_no_transcript_are_refused(queries, name, change, problem):
    """Before anything is computed from them."""
    asked = queries(full=True)
    ask(asked)
    arrays = asked.transcript_arrays()
    with pytest.raises(ValueError, match=re.escape(problem)):
        FullTranscript.from_arrays(arrays | {name: change(arrays[name])}, (1, 2, 2), CLASSES)


def test_a_step_without_queries_has_an_empty_transcript(queries):
    """Whose digest is that of a chain without links."""
    asked = queries(full=True)
    kept = FullTranscript.from_arrays(asked.transcript_arrays(), (1, 2, 2), CLASSES)
    assert kept.digest(asked.replies()[:, 1]) == asked.transcript == TranscriptChain().digest
