"""Rates of disagreement: exact tests, and what their pattern is called."""

from itertools import pairwise
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laboratory import Gallery, Laboratory
from players import Honest, chance, environment

from orchestrator.domain.findings import FindingKind
from orchestrator.integrity import disagreement_rates
from orchestrator.integrity.detection_power import ALPHA, SamplingDesign
from orchestrator.integrity.disagreement_rates import DisagreementRate, DisagreementRates
from orchestrator.integrity.replay_session import SessionTrace

NOISE = 0.001
NONE = DisagreementRate(0, 1000)


@settings(deadline=None)
@given(st.integers(0, 12), st.integers(12, 60), st.floats(0.001, 0.3))
def test_beyond_is_the_upper_tail(disagreements, pairs, noise) -> None:
    """It is the binomial probability of so many or more, counted out."""
    tail = sum(comb(pairs, k) * noise**k * (1 - noise) ** (pairs - k) for k in range(disagreements, pairs + 1))
    assert DisagreementRate(disagreements, pairs).p_above_noise(noise) == pytest.approx(tail, abs=1e-12)


def test_exceeds_is_fishers_test() -> None:
    """It is the hypergeometric probability of so uneven a table or a more uneven one, counted out."""
    first, second = DisagreementRate(7, 20), DisagreementRate(2, 30)
    tail = sum(comb(20, k) * comb(30, 9 - k) for k in range(7, 10)) / comb(50, 9)
    assert first.p_above_rate(second) == pytest.approx(tail)


def test_no_pairs_prove_nothing() -> None:
    """Where nothing could be compared, nothing is improbable."""
    assert DisagreementRate(0, 0).p_above_noise(NOISE) == 1
    assert DisagreementRate(0, 0).p_above_rate(DisagreementRate(0, 10)) == 1
    assert (
        DisagreementRates(DisagreementRate(0, 0), DisagreementRate(0, 0), DisagreementRate(0, 0)).accused_kind(NOISE)
        is None
    )


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (
            DisagreementRates(DisagreementRate(20, 1000), DisagreementRate(40, 2000), DisagreementRate(40, 2000)),
            FindingKind.CHANCE,
        ),
        (
            DisagreementRates(DisagreementRate(20, 1000), DisagreementRate(0, 2000), DisagreementRate(20, 2000)),
            FindingKind.STATE,
        ),
        (DisagreementRates(NONE, DisagreementRate(40, 2000), DisagreementRate(40, 2000)), FindingKind.ENVIRONMENT),
        (DisagreementRates(NONE, DisagreementRate(0, 2000), DisagreementRate(40, 2000)), FindingKind.ENVIRONMENT),
        (DisagreementRates(NONE, DisagreementRate(0, 2000), DisagreementRate(0, 2000)), None),
        (DisagreementRates(DisagreementRate(1, 1000), DisagreementRate(2, 2000), DisagreementRate(2, 2000)), None),
        (DisagreementRates(DisagreementRate(4, 1000), DisagreementRate(8, 2000), DisagreementRate(8, 2000)), None),
    ],
)
def test_the_pattern_says_the_kind(found, kind) -> None:
    """Within one sandbox; at the same places in both twins; between twins; against the play alone; not at all."""
    verdict = found.accused_kind(NOISE)
    assert (verdict and verdict[0]) == kind
    assert verdict is None or verdict[1] < ALPHA


def test_a_noisier_device_needs_more() -> None:
    """What accuses under one cap is honest under a higher one."""
    found = DisagreementRates(DisagreementRate(20, 1000), DisagreementRate(40, 2000), DisagreementRate(40, 2000))
    assert found.accused_kind(NOISE) is not None
    assert found.accused_kind(0.02) is None


def test_an_honest_device_at_the_cap_is_hardly_ever_accused() -> None:
    """Devices that disagree exactly as often as is allowed: at most so many of 20,000 are accused as ALPHA says."""
    drawn = np.random.default_rng(0).binomial([1000, 2000, 2000], NOISE, (20_000, 3))
    accused = sum(
        int(count)
        for (w, t, p), count in zip(*np.unique(drawn, axis=0, return_counts=True), strict=True)
        if DisagreementRates(
            DisagreementRate(w, 1000), DisagreementRate(t, 2000), DisagreementRate(p, 2000)
        ).accused_kind(NOISE)
        is not None
    )
    assert accused <= 3 * ALPHA * 20_000 + 5


def measured(kind, *, batch: int = 1, cells: int = 2, pictures: int = 300) -> tuple[DisagreementRates, SessionTrace]:
    """Returns the rates of a classifier of the laboratory, and the sessions that they took."""
    lab = Laboratory(kind, Gallery.drawn(1, cells=cells, pictures=pictures), 1, batch=batch)
    play, trace = lab.play(), SessionTrace()
    return lab.run(disagreement_rates.measure_rates(trace, play, SamplingDesign(), np.random.default_rng(1))), trace


@pytest.mark.parametrize("batch", [1, 8, 7, 64])
def test_twins_are_asked_the_same(batch) -> None:
    """Two fresh sandboxes, the same questions in the same order, whole batches only, some again at the end."""
    found, trace = measured(Honest, batch=batch)
    (one, _), (other, _) = trace.sessions
    assert np.array_equal(one.questions, other.questions)
    count, repeats = 600 - 2 * (300 % batch), 500 - 500 % batch  # two sandboxes of 300
    assert len(one.questions) == count + repeats
    assert np.array_equal(one.questions[:repeats], one.questions[count:])
    assert len({tuple(row) for row in one.questions.tolist()}) == count
    assert found == DisagreementRates(
        DisagreementRate(0, 2 * repeats), DisagreementRate(0, count + repeats), DisagreementRate(0, count)
    )


def test_few_questions_are_all_compared() -> None:
    """A play that is smaller than a batch is still measured."""
    found, _ = measured(Honest, batch=64, cells=2, pictures=20)
    assert found.between_play_and_replay.pairs == 40


@pytest.mark.parametrize(
    ("kind", "named"), [(chance(100), FindingKind.CHANCE), (environment(100), FindingKind.ENVIRONMENT)]
)
def test_one_in_a_hundred_shows(kind, named) -> None:
    """At 1 % of the answers the rates of 1000 questions are enough."""
    found, _ = measured(kind, cells=2, pictures=500)
    verdict = found.accused_kind(NOISE)
    assert verdict is not None
    assert verdict[0] is named


def test_more_disagreements_are_never_less_improbable() -> None:
    """Both tests fall with the count."""
    for test in (
        lambda k: DisagreementRate(k, 500).p_above_noise(NOISE),
        lambda k: DisagreementRate(k, 500).p_above_rate(DisagreementRate(2, 500)),
    ):
        values = [test(k) for k in range(30)]
        assert all(later <= earlier for earlier, later in pairwise(values))
