"""A killed orchestrator loses the step in flight and nothing else, and leaves nothing behind (X1)."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.application.rounds import play_rounds, round_record
from orchestrator.domain import events
from orchestrator.domain.text import printable

from .conftest import CONTAINERS_IN_SOAK

PLAYERS = ("attack_noop", "attack_honest", "defence_honest", "defence_constant")
MEASURED = {
    "seconds",
    "cpu_seconds",
    "peak_bytes",
    "bytes_in",
    "bytes_out",
    "endings",
    "commitment",
    "ledger",
}
KILLS = 10 if os.environ.get("SPARRING_SOAK") else 3


def unmeasured(part):
    """Returns a results document without what is measured or drawn anew in every round."""
    if isinstance(part, dict):
        return {key: unmeasured(value) for key, value in part.items() if key not in MEASURED}
    return [unmeasured(item) for item in part] if isinstance(part, list) else part


def start(lab, contest: Path, out: Path) -> subprocess.Popen:
    """Starts `sparring round run` in a process of its own."""
    command = [sys.executable, "-m", "orchestrator", "round", "run", str(contest), "--out", str(out), "--log-json"]
    options = ["--backend", lab.backend, "--slots", "2", "--allow-unisolated"]
    return subprocess.Popen(
        [*command, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        # Whoever runs the tests in the background of a shell has Ctrl-C ignored, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  no other threads
    )


def players_of(folder: Path) -> list[int]:
    """Returns the processes on this machine that work in a folder below `folder`: the players of one test."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cwd").readlink().is_relative_to(folder):
                    found.append(int(entry.name))
    return found


@CONTAINERS_IN_SOAK
@pytest.mark.soak
def test_a_killed_round_goes_on(lab) -> None:
    """After kill -9 at random moments the results are those of an undisturbed round, and no job is finished twice.

    test_kills.py shows it of one round.
    """
    settings = {"isolation": "attack", "limits": {"perturb_seconds": 30}}
    undisturbed = lab.play(*PLAYERS, out="undisturbed", **settings)
    contest, out = lab.folder / "contest.yaml", lab.folder / "killed"
    chance = random.Random(11)

    for _ in range(KILLS):
        orchestrator = start(lab, contest, out)
        time.sleep(chance.uniform(1.0, 3.5))
        orchestrator.send_signal(signal.SIGKILL)
        orchestrator.communicate()
    last = start(lab, contest, out)
    _, log = last.communicate(timeout=120)
    assert last.returncode == 0, printable(log, 3000)

    results = json.loads((out / "results.json").read_text())
    assert unmeasured(results) == unmeasured(undisturbed.model_dump(mode="json"))
    record, _ = round_record.read_round(out)
    ledger = play_rounds.RoundFolder(out).ledger()
    happened = [entry.event for entry in ledger.read()]
    ledger.close()
    finished = [event.job for event in happened if isinstance(event, events.JobFinished)]
    steps = [(event.job, event.step) for event in happened if isinstance(event, events.StepFinished)]
    assert len(finished) == len(set(finished)) == len(results["jobs"])
    assert len(steps) == len(set(steps))
    assert record.round.closed
    assert players_of(lab.folder) == []


def test_ctrl_c_ends_at_once_and_cleanly(process_lab) -> None:
    """An interrupted round ends within seconds although a player hangs, says how to go on, and leaves no player."""
    contest = process_lab.contest("attack_hangs", "defence_honest", limits={"perturb_seconds": 600})
    orchestrator = start(process_lab, contest, process_lab.folder / "out")
    deadline = time.monotonic() + 60
    while not players_of(process_lab.folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(2)  # until it hangs

    orchestrator.send_signal(signal.SIGINT)
    _, said = orchestrator.communicate(timeout=20)

    assert orchestrator.returncode == 130
    assert b"run the same command again" in said
    assert players_of(process_lab.folder) == []


def test_another_contest_in_the_same_folder_is_refused(process_lab) -> None:
    """A folder that holds a round is never mixed with another one; the error names what changed."""
    process_lab.play("attack_noop", "defence_honest")

    with pytest.raises(play_rounds.UsageError, match=r"changed since then: the contest file"):
        process_lab.play("attack_noop", "defence_honest", seed=5)


def test_a_finished_round_is_not_played_again(process_lab) -> None:
    """Running a complete round again plays nothing and gives the same results."""
    first = process_lab.play("attack_noop", "defence_honest")
    again = process_lab.play("attack_noop", "defence_honest")
    assert again == first
