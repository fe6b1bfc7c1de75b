"""Fixtures for tests of players: the digits, the helper modules, and a player that answers over its pipes."""

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from orchestrator.datasets.digits import DigitsDataset, DigitsOptions
from orchestrator.domain.samples import Samples
from orchestrator.domain.submissions import Side
from orchestrator.intake import manifest, scaffold
from orchestrator.intake.scaffold import Framework, ScaffoldRequest
from orchestrator.protocol.messages import BudgetHeader, LimitsHeader, Role, TaskHeader
from orchestrator.protocol.session import PlayerReply, Session

ROOT = Path(__file__).parents[2]
HELPERS = ROOT / "images" / "_base" / "python"
HELPER = HELPERS / "sparring_player.py"
BASE = "sparring/base:cpu"
EPSILON = 51
PIXELS = np.arange(3 * 64, dtype=np.uint8).reshape(3, 1, 8, 8)
ATTACK = """
from sparring_player import Attack, serve
import numpy as np
class Mine(Attack):
    def load(self, task):
        self.task = task
    def perturb(self, pixels, labels):
        {body}
serve(Mine())
"""
DEFENCE = """
from sparring_player import Defence, serve
import numpy as np
class Mine(Defence):
    scores = {scores}
    def classify(self, pixels):
        {body}
serve(Mine())
"""
PROGRAMS = {Framework.C: ("gcc", "make"), Framework.JAVASCRIPT: ("node",)}
"""The programs that a template needs beside Python."""

# The networks, the attacks and the training are imported as a player imports them. sparring_player itself is not: it
# moves the process's own pipes.
sys.path.insert(0, str(HELPERS))


class Player:
    """A player in a process of its own, and the session with it."""

    def __init__(self, command: list[str], folder: Path, role: Role, **options) -> None:
        task = TaskHeader(
            name="digits",
            classes=[str(label) for label in range(10)],
            shape=options.get("shape", [1, 8, 8]),
            budget=BudgetHeader(norm=options.get("norm", "linf"), epsilon=options.get("epsilon", EPSILON)),
        )
        limits = LimitsHeader(
            ready_seconds=60,
            step_seconds=options.get("step_seconds", 60),
            batch=64,
            payload_bytes=1,
            memory_bytes=2**31,
            threads=1,
        )
        self.session = Session(role, 10, options.get("payload_limit", 2**24), queries=options.get("queries"))
        self.log = (folder / f"{id(self)}.stderr") if options.get("keep_log") else None
        environment = dict(os.environ, PYTHONPATH=str(HELPERS), PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
        with open(self.log or os.devnull, "wb") as log:  # noqa: PTH123  devnull is no Path
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        self.watchdog = threading.Timer(300, self.process.kill)
        self.watchdog.start()
        self._hello = self.session.ask_hello(task, limits, seed=options.get("seed", 7))

    def hello(self) -> PlayerReply:
        """Returns the answer to `hello`."""
        return self.ask(self._hello)[0]

    def ask(self, question: bytes) -> list[PlayerReply]:
        """Sends a question and returns all replies to it; faults are raised."""
        replies = []
        for some in self.each(question):
            replies += some
        return replies

    def each(self, question: bytes) -> Iterator[list[PlayerReply]]:
        """Sends a question and yields its replies as they come."""
        self.process.stdin.write(question)
        self.process.stdin.flush()
        while self.session.has_open_question:
            data = os.read(self.process.stdout.fileno(), 2**20)
            assert data, "the player ended before it answered"
            yield self.session.feed(data)

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        """Returns the candidates for one batch."""
        made = np.zeros_like(pixels)
        for reply in self.ask(self.session.ask_perturb(pixels, None if labels is None else labels.tolist())):
            made[list(reply.index)] = reply.pixels
        return made

    def classify(self, pixels: np.ndarray) -> list[int | None]:
        """Returns the labels for one batch."""
        return list(self.ask(self.session.ask_classify(pixels))[0].labels)

    def leave(self) -> int:
        """Says `bye` and returns the exit status."""
        self.process.stdin.write(self.session.close_conversation())
        self.process.stdin.flush()
        return self.process.wait(10)

    def close(self) -> None:
        """Ends the process."""
        self.watchdog.cancel()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):  # it left with bytes unread
            self.process.stdin.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Player]]:
    """Starts players and ends them with the test."""
    players = []

    def begin(command: list[str], folder: Path, role: Role, **options) -> Player:
        players.append(Player(command, folder, role, **options))
        return players[-1]

    yield begin
    for player in players:
        player.close()


@pytest.fixture
def written(start, tmp_path) -> Callable[..., Player]:
    """Starts a player from a participant's source text, with `hello` answered."""

    def begin(source: str, role: Role, *, greet: bool = True, **options) -> Player:
        (tmp_path / "player.py").write_text(source)
        player = start([sys.executable, "player.py"], tmp_path, role, keep_log=True, **options)
        if greet:
            player.hello()
        return player

    return begin


@pytest.fixture(scope="session")
def test_digits() -> Samples:
    """The 500 test digits."""
    return DigitsDataset().read_samples(DigitsOptions(split="test"), Path())


@pytest.fixture(scope="session")
def train_digits() -> Samples:
    """The 1297 training digits."""
    return DigitsDataset().read_samples(DigitsOptions(split="train"), Path())


@pytest.fixture(scope="session")
def template(tmp_path_factory, require):
    """Returns the folder of a template, made and compiled once; without its programs the test is skipped."""
    made = {}

    def get(side: Side, framework: Framework) -> Path:
        for program in PROGRAMS.get(framework, ()):
            if shutil.which(program) is None:
                require(program, f"{program} is not on this machine")
        if (side, framework) not in made:
            folder = tmp_path_factory.mktemp("template") / f"{side}_{framework}"
            scaffold.create_submission(ScaffoldRequest(side, folder.name, framework), folder)
            if framework is Framework.C:
                subprocess.run(["make", "--silent"], cwd=folder, check=True, timeout=60)
            made[side, framework] = folder
        return made[side, framework]

    return get


@pytest.fixture
def open_player(start, template, launch):
    """Starts a template's player as its manifest says, with `hello` answered."""

    def begin(side: Side, framework: Framework, **options):
        folder = template(side, framework)
        player = start(launch(folder), folder, Role(side), **options)
        player.hello()
        return player

    return begin


@pytest.fixture(scope="session")
def launch() -> Callable[[Path], list[str]]:
    """Returns how a folder's player is started here, as its manifest says."""

    def words(folder: Path) -> list[str]:
        program, *arguments = manifest.read_manifest(folder).command
        return [sys.executable if program == "python" else program, *arguments]

    return words


@pytest.fixture(scope="session")
def build(tmp_path_factory, require) -> Callable[..., str]:
    """Returns a function that builds a folder as an image, on the base with the helper modules as they are now."""

    def made(folder: Path, tag: str, *options: str) -> str:
        words = ["docker", "build", "--quiet", "--network", "none", "--tag", tag, *options, str(folder)]
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, env=os.environ | {"DOCKER_BUILDKIT": "0"}
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return tag

    try:
        asked = subprocess.run(["docker", "image", "inspect", BASE], capture_output=True, text=True, check=False)
    except OSError as error:
        require("docker", str(error))
    if asked.returncode:
        require("docker", f"{asked.stderr.strip()}; make images")
    context = tmp_path_factory.mktemp("base")
    shutil.copytree(HELPERS, context / "python", ignore=shutil.ignore_patterns("__pycache__"))
    (context / "Dockerfile").write_text(f"FROM {BASE}\nCOPY python/ /opt/sparring/\n")
    base = made(context, f"sparring-test/images-base:{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}")
    return lambda folder, tag, *options: made(folder, tag, "--build-arg", f"BASE={base}", *options)
