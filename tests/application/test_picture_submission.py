"""Submissions of pictures: what is kept of those that are refused."""

import numpy as np
import pytest

from orchestrator.application.contests import picture_submission, seasons
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import PersonRecord
from orchestrator.errors import Rejected
from orchestrator.intake.picture_archive import PictureArchive

CONTEST = """sparring: 1
contest: digits
title: Digits that mislead
format: attack_set
task: {name: digits, dataset: {kind: digits, split: test, first: 20}}
isolation: round
replay: {power: 0.5, cheat: 0.2}
rules: {tries_per_day: 1, count: correct, grading: {distance: 2, pictures: 12}}
baselines: [{builtin: defence_undefended}]
"""


@pytest.fixture
def desk(tmp_path):
    """The desk of a contest in which each team may submit pictures once a day."""
    (tmp_path / "contest.yaml").write_text(CONTEST)
    seasons.open_contest(tmp_path)
    with seasons.administer(tmp_path) as admin:
        admin.add_team("Reds", [PersonRecord(id="red@example.org", name="Red")])
        yield admin


def submit(desk, value: int, team: str = "Reds"):
    """Submits pictures that are all of one value."""
    shape = desk.contest.load_samples().pixels.shape
    request = SubmissionRequest(team, "digits", name=f"n{value}")
    pictures = PictureArchive(np.full(shape, value, np.uint8), f"sha256:{value:064x}", "none")
    return picture_submission.admit_pictures(desk, request, lambda: pictures)


def test_refused_pictures_are_not_stored(desk) -> None:
    """A team may submit again and again what is refused, and nothing removes an array that no entry names."""
    receipt = submit(desk, 1)
    [received] = [
        entry.event
        for entry in desk.folder.ledger().read()
        if isinstance(entry.event, contest_events.SubmissionReceived)
    ]
    assert desk.folder.blobs().get(received.pixels)
    kept = sorted(path for path in desk.folder.path.rglob("*") if "blobs" in path.parts)
    with pytest.raises(Rejected, match="1 of 1"):
        submit(desk, 2)
    assert sorted(path for path in desk.folder.path.rglob("*") if "blobs" in path.parts) == kept
    assert submit(desk, 1) == receipt


def test_nobody_has_more_tries_by_more_teams(desk) -> None:
    """The hidden model stays hidden also from a person who founds teams: a try is one of everybody in the team (C9)."""
    desk.add_team("Blues", [PersonRecord(id="Red@Example.org", name="Red")])
    desk.add_team("Greens", [PersonRecord(id="green@example.org", name="Green")])
    submit(desk, 1)
    with pytest.raises(Rejected, match=r"Blues, or somebody in it through another team, has submitted 1 of 1"):
        submit(desk, 2, "Blues")
    assert submit(desk, 2, "Greens").attempts_left == 0
