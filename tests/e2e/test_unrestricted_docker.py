"""One week of an unrestricted contest with real containers, and what a stranger computes of it from the bundle."""

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.application.contests import seasons, submission_admission
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.publishing import bundles
from orchestrator.application.rounds.play_rounds import RunOptions, ready_backend
from orchestrator.domain.submissions import Side
from orchestrator.errors import BackendUnavailable
from tests.small_image import small_base_image

from .unrestricted_week import GREY, PlayedContest, play_week

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.xdist_group("unrestricted-docker")]
RECIPE = 'FROM {base}\nCOPY player.py protocol.py /player/\nWORKDIR /player\nCMD ["python", "player.py"]\n'


class ContainerContest(PlayedContest):
    """A contest whose defences are images."""

    def submit_folder(self, folder: Path, team: str) -> None:
        """Builds the image of a folder, and hands it in; where its code is, its team says afterwards (U3)."""
        tag = f"sparring-test/unrestricted-{folder.name}"
        (folder / "Dockerfile").write_text(RECIPE.format(base=small_base_image()), "utf-8")
        subprocess.run(
            ["docker", "build", "--quiet", "--network", "none", "--tag", f"{tag}:cpu", str(folder)],
            check=True,
            capture_output=True,
            env=os.environ | {"DOCKER_BUILDKIT": "0"},
        )
        asked = SubmissionRequest(team=team, task="squares", image=f"{tag}:cpu", name=folder.name, side=Side.DEFENCE)
        with seasons.administer(self.path, "desk", self.clock) as admin:
            submission_admission.submit(admin, asked, ready_backend(admin.contest, self.path.resolve(), self.how))
            admin.correct_release(folder.name, "its team said so", licence=None, source="https://code.example/1")


def test_a_container_breaks_and_a_stranger_recomputes_it(base_image, require, tmp_path) -> None:
    """A defence in a container calls a dark square bright, which raters settle; the bundle alone shows it (U7)."""
    del base_image
    contest = ContainerContest(tmp_path, RunOptions(backend="docker", slots=1))
    try:
        play_week(contest)
    except BackendUnavailable as error:
        require("docker", str(error))
    assert contest.state().defences["plain"].broken_by == [GREY]
    with seasons.administer(contest.path, "desk", contest.clock) as admin:
        bundles.publish_bundle(admin, tmp_path / "full", "full", pictures=True, unfinished=True)
    found = bundles.verify_bundle_or_receipt(tmp_path / "full")
    assert (len(found.rounds), found.outcomes) == (3, 4)
