"""One round, killed again and again at random moments, ends as if nobody had touched it (X1).

All kills strike the same round: some after a random time, which may be before anything is open, some when its ledger
has grown by a random number of entries; some strike the orchestrator alone, some its process group.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.application.rounds import play_rounds
from orchestrator.domain import events
from orchestrator.domain.plan import Stage
from orchestrator.domain.text import printable
from orchestrator.ledger.read_model import RoundView
from orchestrator.sandboxes.linux import cgroup_counters

KILLS = {"process": 50, "docker": 50} if os.environ.get("SPARRING_SOAK") else {"process": 6, "docker": 3}
SEED = 5
PICTURES = 20
PLAYERS = (
    *("attack_strong", "attack_weak", "attack_dark"),
    *("defence_plain", "defence_fragile", "defence_corners"),
)
FEWER = ("attack_strong", "attack_weak", "defence_plain", "defence_fragile")
"""The players in containers, where a sandbox takes longer; they are enough for each stage and for a fault."""
SETTINGS: dict[str, Any] = {
    "isolation": "attack",
    "task": {"dataset": {"kind": "npz", "path": "pictures.npz"}},
    "limits": {"ready_seconds": 60, "perturb_seconds": 60, "perturb_batch": 4, "classify_seconds": 30, "restarts": 10},
    "replay": {"power": 0.9, "cheat": 0.3, "attacks": 0.3},
}
MEASURED = {"seconds", "cpu_seconds", "peak_bytes", "bytes_in", "bytes_out", "endings", "ledger"}
"""Of what scoring/results_file.py calls measured or drawn anew; the commitment is that of the same secret."""
LATEST = {"process": 2.5, "docker": 6.0}
"""Seconds within which an orchestrator is killed where time decides."""
PATIENCE = 120
TICK = 0.001
"""The ledger's times are cut to milliseconds."""
BATCHES = PICTURES // 4
LAST = 8
"""Entries before the end that no kill waits for: they come so fast that it might find the round complete."""


ONLY_PROCESSES = pytest.mark.parametrize(
    "backend", [pytest.param("process", marks=pytest.mark.xdist_group("kills"))], indirect=True
)
"""In a container players have nowhere to write down what they are asked."""


@dataclass
class Life:
    """One orchestrator, from its start to its end, with the number of entries that it left."""

    pid: int
    began: float
    ended: float = 0.0
    entries: int = 0


@dataclass
class Killed:
    """A round that is killed and started again."""

    lab: Any
    contest: Path
    out: Path
    temporary: Path
    lives: list[Life] = field(default_factory=list)

    def start(self) -> subprocess.Popen[bytes]:
        """Starts `sparring round run`, in a process group and with a temporary folder of its own."""
        command = [sys.executable, "-m", "orchestrator", "round", "run", str(self.contest), "--out", str(self.out)]
        options = ["--backend", self.lab.backend, "--slots", "2", "--allow-unisolated", "--log-json"]
        with (self.lab.folder / "said.txt").open("ab") as said:
            orchestrator = subprocess.Popen(
                [*command, *options],
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=os.environ | {"TMPDIR": str(self.temporary)},
                start_new_session=True,
            )
        self.lives.append(Life(orchestrator.pid, time.time()))
        return orchestrator

    def over(self) -> None:
        """Notes the end of the one that was started last."""
        self.lives[-1].ended, self.lives[-1].entries = time.time(), self.entries()

    def entries(self) -> int:
        """Returns how long the ledger is, read without leave to write: the write-ahead log stays as it is."""
        try:
            with closing(sqlite3.connect(f"file:{self.out}/ledger.sqlite?mode=ro", uri=True)) as connection:
                return int(connection.execute("SELECT count(*) FROM ledger").fetchone()[0])
        except sqlite3.OperationalError:  # it is not there yet
            return 0

    def kill(self, seconds: float, entries: int, *, group: bool) -> None:
        """Starts it and kills it after so many seconds, or when the ledger has so many entries."""
        orchestrator = self.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.entries() < entries:
            assert orchestrator.poll() is None, "it ended before it was killed: " + self.said()
            time.sleep(0.001)
        (os.killpg if group else os.kill)(orchestrator.pid, signal.SIGKILL)
        assert orchestrator.wait() == -signal.SIGKILL, "it ended before it was killed: " + self.said()
        self.over()

    def said(self) -> str:
        """Returns the end of what the orchestrators said."""
        return printable((self.lab.folder / "said.txt").read_bytes()[-3000:], 3000)

    def happened(self) -> list[tuple[float, events.Event]]:
        """Returns every event with its time."""
        ledger = play_rounds.RoundFolder(self.out).ledger()
        try:
            return [(datetime.fromisoformat(entry.time).timestamp(), entry.event) for entry in ledger.read()]
        finally:
            ledger.close()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("process", marks=pytest.mark.xdist_group("kills")),
        pytest.param("docker", marks=pytest.mark.docker),
    ],
)
def backend(request: pytest.FixtureRequest) -> str:
    """The name of every backend that this machine has; each of them plays the round once for all tests."""
    if request.param == "docker":
        request.getfixturevalue("base_image")
    return str(request.param)


@pytest.fixture(scope="module")
def undisturbed(shared_lab) -> Path:
    """The folder of the round that nobody disturbs."""
    shared_lab.player = Path(__file__).parent / "players" / "counted.py"
    np.savez(shared_lab.folder / "pictures.npz", **pictures())
    settings = SETTINGS | {"task": {"name": "quarters", "budget": {"norm": "linf", "epsilon": 20}} | SETTINGS["task"]}
    players = PLAYERS
    if shared_lab.backend == "docker":  # each replay begins with a copy of an image
        players, settings["replay"] = FEWER, {"power": 0.5, "cheat": 0.3}
    shared_lab.play(*players, out="undisturbed", **settings)
    return shared_lab.folder / "undisturbed"


@pytest.fixture(scope="module")
def killed(shared_lab, undisturbed) -> Killed:
    """The same round with the same secret, killed `KILLS` times, and then left alone until it ends."""
    folder, kills = shared_lab.folder, KILLS[shared_lab.backend]
    round_ = Killed(shared_lab, folder / "contest.yaml", folder / "killed", folder / "temporary")
    for made in (round_.out, round_.temporary):
        made.mkdir()
    shutil.copy(undisturbed / "secret", round_.out)
    (folder / "asked.log").touch()
    ledger = play_rounds.RoundFolder(undisturbed).ledger()
    whole = len(list(ledger.read()))
    ledger.close()

    chance = random.Random(SEED)
    span = whole - LAST
    for number in range(kills):
        by_time = number % 2 == 0
        seconds = chance.uniform(0.1, LATEST[shared_lab.backend]) if by_time else PATIENCE
        first, after = (span * place // kills for place in (number, number + 1))
        entries = after if by_time else chance.randint(first, after)
        round_.kill(seconds, max(entries, round_.entries() + 1), group=chance.random() < 1 / 3)
    last = round_.start()
    assert last.wait(timeout=PATIENCE) == 0, round_.said()
    round_.over()
    return round_


def pictures() -> dict[str, Any]:
    """Returns pictures u8 [n, 4, 4] whose label is their brightest quarter, no two of them the same."""
    chance = np.random.default_rng(7)
    labels = np.arange(PICTURES) % 4
    images = chance.integers(80, 120, (PICTURES, 4, 4)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 2)
        image[2 * row : 2 * row + 2, 2 * column : 2 * column + 2] += np.uint8(chance.integers(10, 80))
    return {"images": images, "labels": labels}


@dataclass(frozen=True)
class Question:
    """What one player was asked: by its own account, or a run of questions to one process."""

    who: str
    process: str
    when: float
    pictures: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """A step on record: when its end was kept, and the digests of the pictures that it asked about, in order."""

    who: str
    job: str
    stage: Stage
    when: float
    pictures: tuple[str, ...]


@dataclass(frozen=True)
class Steps:
    """All steps of a round."""

    kept: tuple[Step, ...]

    @classmethod
    def of(cls, killed: Killed) -> "Steps":
        """Reads them from the record."""
        happened = killed.happened()
        record = RoundView(play_rounds.RoundFolder(killed.out).blobs(), (event for _, event in happened))
        pixels: dict[str | None, Any] = {None: record.samples.pixels}
        for player in PLAYERS[: len(PLAYERS) // 2]:
            made = record.adversarial_examples(player)
            assert made is not None
            pixels[player] = made.pixels
        kept = []
        for when, event in happened:
            if isinstance(event, events.StepFinished):
                shown = (
                    [pixels[None][number] for number in record.read_array(event, "index")] if not event.cells else []
                )
                rows = record.read_array(event, "rows")[:, :2].tolist() if event.cells else []
                shown += [pixels[event.cells[cell].attack][picture] for cell, picture in rows]
                kept.append(Step(event.submission, event.job, event.stage, when, tuple(map(digested, shown))))
        return cls(tuple(kept))

    def played(self, question: Question) -> Step:
        """Returns the one step of the play that a question belongs to."""
        [step] = [
            step
            for step in self.kept
            if step.who == question.who and step.stage is not Stage.REPLAY and {*question.pictures} <= {*step.pictures}
        ]
        return step

    def replays(self, run: Question) -> bool:
        """Returns whether a run of questions is part of a replay that had no end on record yet."""
        return any(
            run.pictures == step.pictures[place : place + len(run.pictures)]
            for step in self.kept
            if step.who == run.who and step.stage is Stage.REPLAY and run.when <= step.when + TICK
            for place in range(len(step.pictures))
        )


def digested(picture: Any) -> str:
    """Returns what a player writes down of a picture."""
    return hashlib.sha256(picture.tobytes()).hexdigest()[:16]


def questions(log: Path) -> Iterator[Question]:
    """Yields what players wrote down."""
    for line in log.read_text("ascii").splitlines():
        who, process, when, *pictures = line.split()
        yield Question(who, process, float(when), tuple(pictures))


def replayed(asked: list[Question], closed: float) -> Iterator[Question]:
    """Yields what was asked after the play was closed: an attack's questions, a defence's run in each process."""
    runs: dict[str, Question] = {}
    for question in asked:
        if question.when <= closed:
            continue
        if question.who.startswith("attack"):
            yield question
            continue
        run = runs.get(question.process, replace(question, pictures=()))
        runs[question.process] = replace(question, pictures=run.pictures + question.pictures)
    yield from runs.values()


def unmeasured(part: Any) -> Any:
    """Returns a document, its order kept, with nothing in the place of what is measured."""
    if isinstance(part, dict):
        return {key: None if key in MEASURED else unmeasured(value) for key, value in part.items()}
    return [unmeasured(item) for item in part] if isinstance(part, list) else part


def written(folder: Path) -> str:
    """Returns results.json without what is measured, as it is written."""
    text = (folder / "results.json").read_text("utf-8")
    document = json.loads(text)

    def render(what: Any) -> str:
        return json.dumps(what, indent=2, ensure_ascii=False) + "\n"

    assert render(document) == text, "written differently: the comparison would not be byte for byte"
    return render(unmeasured(document))


def test_the_results_are_those_of_an_undisturbed_round(killed, undisturbed) -> None:
    """results.json is the same byte for byte, measured times aside, and not all in it went well."""
    assert written(killed.out) == written(undisturbed)
    document = json.loads((killed.out / "results.json").read_text("utf-8"))
    assert document["complete"]
    assert [part["id"] for part in document["submissions"] if part["faults"]] == ["defence_fragile"]


def test_the_kills_were_spread_over_the_round(killed) -> None:
    """They came in and between its stages, every second one at least after something was kept since the one before."""
    lengths = [life.entries for life in killed.lives]
    assert len(lengths) == KILLS[killed.lab.backend] + 1
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > KILLS[killed.lab.backend] / 2
    begun = {event.stage for _, event in killed.happened()[: lengths[-2]] if isinstance(event, events.StepFinished)}
    assert begun >= {Stage.PERTURB, Stage.CLASSIFY}


def test_nothing_is_on_record_twice(killed) -> None:
    """No step and no job ended twice: none was lost, and what was kept was taken over."""
    happened = [event for _, event in killed.happened()]
    assert not [event for event in happened if isinstance(event, events.StepsLost | events.AttemptFailed)]
    steps = [(event.job, event.step) for event in happened if isinstance(event, events.StepFinished)]
    jobs = [event.job for event in happened if isinstance(event, events.JobFinished)]
    once = [event.kind for event in happened if isinstance(event, events.RoundOpened | events.RoundClosed)]
    assert len(steps) == len(set(steps))
    assert len(jobs) == len(set(jobs))
    assert once == ["round_opened", "round_closed"]


@ONLY_PROCESSES
def test_no_player_is_asked_again_what_is_on_record(killed) -> None:
    """By the players' own account no question came after its step was kept, and a kill cost one step of a job."""
    happened = killed.happened()
    closed = next(when for when, event in happened if isinstance(event, events.PlayClosed)) + TICK
    steps = Steps.of(killed)
    asked = list(questions(killed.lab.folder / "asked.log"))
    play = [(question, steps.played(question)) for question in asked if question.when <= closed]
    assert len(play) >= len(PLAYERS) // 2 * (BATCHES + PICTURES * (len(PLAYERS) // 2 + 1))
    late = [question for question, step in play if question.when > step.when + TICK]
    late += [question for question in replayed(asked, closed) if not steps.replays(question)]
    assert late == []
    for life in killed.lives:
        mine = [(question, step) for question, step in play if life.began <= question.when <= life.ended]
        again = Counter((question.who, question.pictures) for question, _ in mine)
        assert set(again.values()) <= {1, 2}, "a second time alone, after a fault in a sandbox that was asked before"
        lost = Counter(step.job for step in {step for _, step in mine if step.when > life.ended + TICK})
        assert set(lost.values()) <= {1}, f"a kill cost more than the step in flight: {lost}"


def test_nothing_is_left_behind(killed) -> None:
    """No process, container, control group or mount, no temporary folder, and no half-written file."""
    assert list(killed.temporary.iterdir()) == []
    assert sorted(path.name for path in killed.out.rglob(".*")) == [".gitignore"]
    folder = str(killed.lab.folder).encode()
    owners = {str(life.pid) for life in killed.lives}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            assert folder not in (process / "environ").read_bytes(), (process / "cmdline").read_bytes()
            assert not (process / "cwd").readlink().is_relative_to(killed.lab.folder)
    assert str(killed.lab.folder) not in Path("/proc/self/mountinfo").read_text()
    names = [path.name for one in cgroup_counters.hierarchies() for path in one.glob("sparring-*")]
    assert [name for name in names if name.split("-")[2] in owners] == []
    if killed.lab.backend == "docker":
        command = ["docker", "ps", "--all", "--format", '{{.Label "sparring.owner"}}']
        labels = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        assert [label for label in labels if label.split(":")[2] in owners] == []
