"""Margins of predictions (C5), also of scores that are infinite, huge or missing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.measures.margins import Probabilities, prediction_margins

INF, NAN = math.inf, math.nan


def margin(scores: list[float], predicted: int = 0, probabilities: Probabilities = Probabilities.SOFTMAX) -> float:
    """Returns the margin of one picture."""
    return float(prediction_margins(np.array([scores]), np.array([predicted]), probabilities)[0])


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.0, 0.0], 0),
        ([math.log(3), 0.0], 0.5),
        ([math.log(6), math.log(3), 0.0], 0.3),
        ([1e308, -1e308], 1),
        ([-1e308, 1e308], -1),
        ([INF, 5.0], 1),
        ([5.0, INF], -1),
        ([INF, INF, 0.0], 0),
        ([-INF, -INF, -INF], 0),
        ([0.0, -INF, -INF], 1),
        ([-INF, 0.0, 0.0], -0.5),
        ([1000.0 + math.log(3), 1000.0], 0.5),
    ],
)
def test_margins_of_logits(scores, expected) -> None:
    """The softmax's limit where logits are infinite, without overflow where they are large."""
    assert margin(scores) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("probabilities", Probabilities)
@pytest.mark.parametrize("scores", [[NAN, 0.5], [0.5, NAN], [NAN, NAN]])
def test_a_picture_with_nan_has_no_margin(scores, probabilities) -> None:
    """Its margin is NaN, and the others' are what they are."""
    found = prediction_margins(np.array([[0.75, 0.25], scores]), np.array([0, 0]), probabilities)
    assert np.isnan(found).tolist() == [False, True]


def test_given_probabilities_are_taken_as_they_are() -> None:
    """The margin is a difference of two of them, in float64 also of 32 bits."""
    scores = np.array([[0.25, 0.625, 0.125], [1, 0, 0]], np.float32)
    found = prediction_margins(scores, np.array([1, 0]), Probabilities.GIVEN)
    assert (found.dtype, found.tolist()) == (np.float64, [0.375, 1])
    assert scores[0, 1] == 0.625


@pytest.mark.parametrize("scores", [[2.0, -1.0], [0.5, 0.2], [INF, 0.0], [0.6, 0.6]])
def test_scores_that_are_no_probabilities_are_refused(scores) -> None:
    """The error names the picture and the remedy."""
    with pytest.raises(ValueError, match=r"scores of picture 0 are no probabilities.*use softmax"):
        margin(scores, probabilities=Probabilities.GIVEN)


@pytest.mark.parametrize(
    ("scores", "predicted"),
    [(np.zeros((2, 1)), np.zeros(2, int)), (np.zeros(2), np.zeros(2, int)), (np.zeros((2, 3)), np.zeros(3, int))],
    ids=["one-class", "no-classes", "other-count"],
)
def test_shapes_that_do_not_fit_are_refused(scores, predicted) -> None:
    """There are at least two classes, and one prediction a picture."""
    with pytest.raises(ValueError, match="predictions of shape"):
        prediction_margins(scores, predicted, Probabilities.SOFTMAX)


@pytest.mark.parametrize("predicted", [-1, 2])
def test_a_class_that_there_is_not_is_refused(predicted) -> None:
    """Classes are numbered from 0."""
    with pytest.raises(ValueError, match="of 2 classes"):
        margin([0.0, 1.0], predicted)


@pytest.mark.parametrize("probabilities", Probabilities)
def test_no_pictures_have_no_margins(probabilities) -> None:
    """An empty array gives an empty one."""
    assert prediction_margins(np.zeros((0, 3)), np.zeros(0, int), probabilities).shape == (0,)


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=6), st.integers(0, 5))
def test_margins_are_differences_of_softmax_values(scores, position) -> None:
    """In float64, to the last few digits; adding the same to all logits changes nothing."""
    predicted = position % len(scores)
    powers = [math.exp(score) for score in scores]
    shares = [power / math.fsum(powers) for power in powers]
    expected = shares[predicted] - max(share for at, share in enumerate(shares) if at != predicted)
    assert margin(scores, predicted) == pytest.approx(expected, abs=1e-12)
    assert margin([score + 64 for score in scores], predicted) == pytest.approx(expected, abs=1e-12)
