"""The demo as a contest that is served: teams, what they submitted, and a round that waits for a worker."""

import pytest

from orchestrator.application.contests import demo_contest, seasons
from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.errors import UsageError


@pytest.mark.slow
def test_the_demo_becomes_a_contest_folder(tmp_path):
    """Six teams have one submission each, as the demo's file says, and the first round is asked for."""
    folder = demo_contest.create_demo(tmp_path / "demo", RunOptions("process", 1, allow_unisolated=True))
    with seasons.administer(folder.path) as admin:
        handed = {(entry.team, entry.id, entry.side.value) for entry in admin.season.entries.values()}
        assert handed == {
            ("Corner Shop", "corners", "attack"),
            ("Gentle Slope", "softmax", "attack"),
            ("Regression to the Mean", "meanward", "attack"),
            ("Good Neighbours", "neighbours", "defence"),
            ("White Noise", "noisy_mlp", "defence"),
            ("Middle Ground", "median", "defence"),
        }
        assert [request.round for request in admin.season.round_requests.values()] == ["initial"]
    with pytest.raises(UsageError, match="holds a contest already"):
        demo_contest.create_demo(folder.path, RunOptions("process", 1, allow_unisolated=True))
