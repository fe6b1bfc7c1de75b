"""The boundary attack against foolbox 1.5.0, whose results on 200 digits are on record (rule B2).

bench/boundary_truth.py made the record, and says what is compared. The tests play our attack anew: on a tenth of the
pictures, and in the soak run on all, with another walk that must not pass for ours.
"""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
RECORD = json.loads(Path(__file__).with_name("boundary_foolbox.json").read_text("utf-8"))
LEVEL = 0.01
"""Two attacks that do the same disagree by chance in one of a hundred records; ours is drawn once and for all."""
FEW, SOME = 20, 40


@pytest.fixture(scope="module")
def bench():
    """The benchmark's module; it finds its other half beside it."""
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        spec = importlib.util.spec_from_file_location("boundary_truth", ROOT / "bench" / "boundary_truth.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(ROOT / "bench"))


def of_foolbox(setting):
    """Returns which pictures foolbox fooled."""
    return np.array([each == "1" for each in RECORD[setting]["successes"]])


def test_the_record_is_of_the_settings_that_are_played(bench):
    """Iterations and distance are those of today, and so many pictures are on record."""
    for setting, (iterations, distance) in bench.SETTINGS.items():
        record = RECORD[setting]
        assert (record["iterations"], record["distance"]) == (iterations, distance)
        assert len(record["successes"]) == len(record["distances"]) == bench.PICTURES


@pytest.mark.parametrize("setting", ["early", "full"])
def test_foolbox_fools_what_it_came_near_enough(setting):
    """Successes and distances on record are of the same attacks: all within, and no other but by the projection."""
    record = RECORD[setting]
    within = np.array(record["distances"]) <= record["distance"]
    assert (of_foolbox(setting) >= within).all()
    assert (of_foolbox(setting) != within).sum() <= 2


@pytest.mark.slow
def test_ours_ends_as_near_on_the_same_pictures(bench):
    """After 200 iterations, on the first pictures: the same ones are fooled, and the others left as far, within 2 %."""
    fooled, nearest = bench.run_ours(bench.make_task("early", range(FEW)))
    theirs, distances = of_foolbox("early")[:FEW], np.array(RECORD["early"]["distances"])[:FEW]
    assert 0.25 < theirs.mean() < 0.75
    assert (fooled != theirs).sum() <= 1
    neither = ~fooled & ~theirs
    assert np.median(nearest[neither] / distances[neither]) == pytest.approx(1, abs=0.02)


@pytest.mark.slow
@pytest.mark.soak
def test_another_walk_would_be_noticed(bench):
    """If ours looked at the sphere in each step, its steps would adapt sooner, and it would fool more pictures."""
    with bench.changed(bench.CHANGES["the sphere is looked at in each step"]):
        fooled, _ = bench.run_ours(bench.make_task("early", range(SOME)))
    assert bench.compare(of_foolbox("early")[:SOME], fooled)["mcnemar"] < LEVEL


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("setting", ["early", "full"])
def test_ours_succeeds_as_often_as_foolbox(bench, setting):
    """On all pictures, by Fisher's exact test and by McNemar's; the record is of about half successes."""
    found = bench.compare(of_foolbox(setting), bench.run_ours(bench.make_task(setting))[0])
    assert found["fisher"] > LEVEL, found
    assert found["mcnemar"] > LEVEL, found
    assert 0.3 * bench.PICTURES < found["foolbox"] < 0.7 * bench.PICTURES


def test_fishers_test_notices_seventeen_points(bench):
    """With a probability of 80 %, at this level and this number of pictures."""
    assert bench.detectable_difference(int(of_foolbox("early").sum()), bench.PICTURES, LEVEL, 0.8) == 0.17
