"""What a restart may not change: who holds a round, how long a player has, and how many sandboxes it gets (X1)."""

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from orchestrator.application.contests import seasons
from orchestrator.application.rounds import play_rounds, round_record
from orchestrator.cli.app import app
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.read_model import RoundView

HERE = Path(__file__).parent
HOW = play_rounds.RunOptions(backend="process", slots=2, allow_unisolated=True)
PATIENCE = 60
DEADLINE = 3.0
BATCHES = 5


@pytest.fixture
def counted(process_lab):
    """A laboratory whose players write down what they are asked."""
    process_lab.player = HERE / "players" / "counted.py"
    (process_lab.folder / "asked.log").touch()
    return process_lab


def asked(lab) -> list[tuple[str, float, str]]:
    """Returns who was asked something, when, and the digests of the pictures."""
    lines = (lab.folder / "asked.log").read_text("ascii").splitlines()
    return [(who, float(when), pictures) for who, _, when, pictures in (line.split(" ", 3) for line in lines)]


def until(condition: Callable[[], bool]) -> None:
    """Waits for something."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.01)


def read(out: Path) -> RoundView:
    """Returns the record of a round."""
    record, _ = round_record.read_round(out)
    return record


def faults(record: RoundView) -> Counter[tuple[str, str]]:
    """Returns how many pictures each fault cost."""
    steps = (step for job in record.round.steps.values() for step in job.values())
    return sum(
        (Counter({(step.submission, fault.code): fault.pictures}) for step in steps for fault in step.faults), Counter()
    )


@dataclass
class Orchestrators:
    """Starts `sparring round run` on a contest file or a contest's folder, by these words."""

    words: dict[str, list[str]]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __call__(self, what: str) -> subprocess.Popen[bytes]:
        """Starts one."""
        command = [sys.executable, "-m", "orchestrator", *self.words[what]]
        self.started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
        return self.started[-1]


@pytest.fixture
def orchestrators(process_lab) -> Iterator[Orchestrators]:
    """Plays a contest where an attack hangs for ten minutes."""
    limits = {"perturb_seconds": 600}
    file = process_lab.contest("attack_hangs", "defence_honest", limits=limits)
    body = json.loads(file.read_text())
    cup = process_lab.folder / "cup"
    cup.mkdir()
    body["baselines"] = [{"folder": entry["folder"]} for entry in body.pop("submissions")]
    body["rules"]["initial"] = {"classifier": "defence_honest", "weights": {"attack_hangs": 1}}
    body["task"]["dataset"]["path"] = str(process_lab.folder / "quarters.npz")
    (cup / "contest.yaml").write_text(json.dumps(body))
    seasons.open_contest(cup, "tester")
    words = {"file": [str(file), "--out", str(process_lab.folder / "out")], "folder": [str(cup), "initial"]}
    options = ["--slots", "1", "--allow-unisolated", "--log-json"]
    made = Orchestrators({what: ["round", "run", *given, *options] for what, given in words.items()})
    yield made
    for orchestrator in made.started:
        orchestrator.send_signal(signal.SIGINT)
        orchestrator.communicate(timeout=PATIENCE)


def plays(orchestrator: subprocess.Popen[bytes]) -> bool:
    """Waits until an orchestrator plays; returns False where it ended instead."""
    return any(b"round_started" in line for line in orchestrator.stderr)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_one_orchestrator_at_a_time_and_a_dead_one_is_none(orchestrators, what) -> None:
    """A second one is refused with exit code 2 and disturbs nothing; after kill -9 of the first the next one plays."""
    first = orchestrators(what)
    assert plays(first)
    second = CliRunner().invoke(app, orchestrators.words[what])
    assert second.exit_code == 2
    said = " ".join(second.stderr.split())
    assert "another orchestrator plays the round" in said or "another command works on the contest" in said
    assert "wait for it or end it" in said
    assert first.poll() is None
    first.kill()
    first.communicate()
    assert plays(orchestrators(what))


def test_a_kill_gives_a_whole_new_deadline_for_its_step_alone(counted) -> None:
    """A defence that is stuck at one picture is killed with it in mid-deadline: one fault, one answer a picture."""
    limits = {"classify_seconds": DEADLINE, "perturb_seconds": 60, "ready_seconds": 60}
    contest = counted.contest("attack_dark", "defence_stuck", isolation="attack", limits=limits, replay={"power": 0})
    out = counted.folder / "out"
    words = [str(contest), "--out", str(out), "--slots", "1", "--allow-unisolated"]
    command = [sys.executable, "-m", "orchestrator", "round", "run", *words]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    killed = subprocess.Popen(command, **quiet)
    with np.load(counted.folder / "quarters.npz") as pictures:
        speck = hashlib.sha256(pictures["images"][0].tobytes()).hexdigest()[:16]
    until(lambda: ("defence_stuck", speck) in [(who, picture) for who, _, picture in asked(counted)])
    time.sleep(DEADLINE / 2)
    killed.kill()
    killed.wait()
    before = asked(counted)
    play_rounds.play_round(Contest(contest), out, replace(HOW, slots=1), lambda _: None)
    end = time.time()  # by the clock that players write down

    record = read(out)
    assert faults(record) == {("defence_stuck", "deadline"): 1}
    answers = Counter(
        (cell.attack, picture)
        for step in record.round.steps.values()
        for one in step.values()
        if one.cells
        for cell, picture in ((one.cells[row[0]], row[1]) for row in record.read_array(one, "rows").tolist())
    )
    assert set(answers.values()) == {1}
    assert len(answers) == 2 * counted.pictures
    after = asked(counted)[len(before) :]
    stuck = [when for who, when, picture in after if who == "defence_stuck" and picture == speck]
    assert len(stuck) in {1, 2}, "in a sandbox that was asked before, and alone in a fresh one"
    for when in stuck:
        # The next question, or the end of the round where the order has this one last.
        assert min((later for _, later, _ in after if later > when), default=end) - when >= DEADLINE
    again = Counter((who, pictures) for who, _, pictures in before + after if pictures != speck)
    assert max(again.values()) <= 2
    processes = [line.split()[1] for line in (counted.folder / "asked.log").read_text("ascii").splitlines()]
    lost = {
        (who, pictures)
        for (who, _, pictures), process in zip(before, processes, strict=False)
        if process == processes[len(before) - 1] and pictures != speck
    }
    assert {question for question, times in again.items() if times == 2} == lost


@pytest.mark.parametrize("kept", [1, 3])
def test_a_restart_gives_no_more_sandboxes(counted, kept) -> None:
    """Faults on record are not played again after a kill: each batch of an attack that dies costs one sandbox."""
    players = ("attack_dies", "defence_plain")
    counted.pictures = 6 * BATCHES
    limits = {"perturb_batch": 6, "perturb_seconds": 60}
    contest = counted.contest(
        *players, isolation="round", limits=limits, replay={"power": 0}, rules={"clean_floor": None}
    )
    undisturbed = counted.folder / "undisturbed"
    play_rounds.play_round(Contest(contest), undisturbed, HOW, lambda _: None)
    (counted.folder / "asked.log").write_text("")

    out = counted.folder / "out"
    out.mkdir()
    (out / "secret").write_bytes((undisturbed / "secret").read_bytes())
    killed = subprocess.run(
        [sys.executable, HERE / "die_at.py", contest, out, str(kept), "step_finished"], check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL
    play_rounds.play_round(Contest(contest), out, HOW, lambda _: None)

    record, name = read(out), "attack_dies"
    assert faults(record) == faults(read(undisturbed)) == {(name, "died"): counted.pictures}
    assert len(record.round.sandboxes_of(name)) == BATCHES
    questions = sum(who == name for who, _, _ in asked(counted))
    assert questions <= BATCHES + 1, "but for the step in flight nothing is asked again"
