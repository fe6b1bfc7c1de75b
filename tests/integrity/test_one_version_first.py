"""What a replay asks first: one version of each picture, of which no sandbox can have kept another."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from laboratory import Gallery, Laboratory
from players import Honest

from orchestrator.integrity import planned_replays
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.integrity.replay_session import SessionPurpose


@st.composite
def samples(draw) -> np.ndarray:
    """Some distinct questions about 4 cells and 20 pictures."""
    chosen = draw(st.lists(st.integers(0, 79), min_size=1, max_size=80, unique=True))
    return np.array([divmod(each, 20) for each in chosen], np.int32)


@settings(deadline=None)
@given(samples(), st.integers(0, 3), st.integers(0, 2**32))
def test_one_version_comes_before_all_others(sample, clean, seed) -> None:
    """Each drawn picture is met first in a version of the sample; later ones have the clean version before them."""
    order = [
        tuple(row) for row in planned_replays.one_version_first(sample, clean, np.random.default_rng(seed)).tolist()
    ]
    drawn = {tuple(row) for row in sample.tolist()}
    pictures = {picture for _, picture in drawn}
    first = order[: len(pictures)]
    assert {picture for _, picture in first} == pictures
    assert set(first) <= drawn
    assert sorted(order) == sorted(drawn | {(clean, picture) for picture in pictures})
    for place, (cell, picture) in enumerate(order[len(pictures) :], len(pictures)):
        assert cell == clean or (clean, picture) in order[:place]


def test_the_first_session_begins_so() -> None:
    """Also what is asked apart is asked a second time, at the end, when its clean version was shown."""
    play = Laboratory(Honest, Gallery.drawn(2, cells=3, pictures=300), 2).play()
    chance = np.random.default_rng(2)
    sample = planned_replays.draw_sample(play, SamplingDesign(), chance)
    session = planned_replays.planned_sessions(play, sample, chance)[0]
    assert session.purpose is SessionPurpose.SHUFFLED
    pictures = len(set(sample[:, 1].tolist()))
    assert len(set(session.questions[:pictures, 1].tolist())) == pictures
    shown = {tuple(row) for row in session.questions[:-1].tolist()}
    cell, picture = session.questions[-1].tolist()
    assert (cell, picture) in shown
    assert (play.clean_cell, picture) in shown
