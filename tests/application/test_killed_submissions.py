"""A submission that is killed at any moment, while a round is played: nothing is lost, doubled or left behind."""

import os
import random
import signal
from pathlib import Path

import pytest

from orchestrator.application.contests import season_rounds
from orchestrator.domain import contest_events

from . import command_process
from .conftest import HOW

KILLS = 60 if os.environ.get("SPARRING_SOAK") else 4
SEED = 11


def submit_until_killed(cup, folder: Path, team: str, number: int) -> int:
    """Submits a folder, killed at the n-th change to files; returns how many there were, 0 where it was killed."""
    log = cup.path / "log"
    words = ["submit", str(cup.folder.path), str(folder), "--team", team, "--task", "quarters"]
    status, moments = command_process.run_until_killed(
        [*words, "--backend", "process", "--allow-unisolated"], number, log
    )
    assert status == (-signal.SIGKILL if number else 0), (number, log.read_text())
    return moments


def kept(cup) -> set[str]:
    """Returns what lies in the contest's folder, without the rounds and what a database keeps beside itself."""
    path = cup.folder.path
    every = (each.relative_to(path) for each in path.rglob("*") if not each.name.endswith(("-wal", "-shm")))
    return {str(each) for each in every if each.parts[0] not in {"rounds", "blobs"}}


@pytest.mark.slow
def test_a_submission_killed_at_any_moment_is_submitted_again(cup) -> None:
    """Each kill leaves a whole chain, with the entry once or not at all; submitted again, it is there once."""
    for team, kind in (("One", "attack_honest"), ("Two", "defence_honest")):
        cup.submit(team, cup.player(kind))
    moments = submit_until_killed(cup, cup.player("attack_noop", "first"), "Three", 0)
    assert moments > 20
    before, files = len(cup.acts(contest_events.SubmissionReceived)), kept(cup)
    folder = cup.player("attack_noop", "second")
    (folder / "note.txt").write_text("other files than the first")
    points = sorted(random.Random(SEED).sample(range(1, moments + 1), min(KILLS, moments)))
    begun = []

    def happens(_: object) -> None:
        if begun:
            return
        begun.append(True)
        for point in points:
            submit_until_killed(cup, folder, "Three", point)
            received = cup.acts(contest_events.SubmissionReceived)[before:]
            assert [act.name for act in received] in ([], ["second"]), point

    with cup.desk() as desk:
        (played,) = season_rounds.play_round(desk, "initial", HOW, happens, "quarters")
    assert played.complete
    assert "second" not in {part.id for part in played.submissions}
    known = [part.image for part in played.submissions]  # the round brought the baselines' files
    receipt = cup.submit("Three", folder)
    (received,) = cup.acts(contest_events.SubmissionReceived)[before:]
    assert receipt.document()["submission"] == received.id == "second"
    new = kept(cup) - files
    assert (cup.folder.path / received.folder).is_dir()
    images = {f"images/{digest.removeprefix('sha256:')}" for digest in (received.digest, *known)}
    assert {name for name in new if not any(name.startswith(image) for image in images)} == {"receipts/second.json"}
