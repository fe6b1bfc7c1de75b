"""Twelve broken submissions in real containers: each fails at the right step, and its remedy works when followed."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from orchestrator.application.submissions import self_check
from orchestrator.application.submissions.self_check import CheckSubject
from orchestrator.domain.submissions import Side
from orchestrator.intake import scaffold
from orchestrator.intake.compliance.trial_match import BATCH_STEP, HELLO_STEP, ONE_PICTURE_STEP
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.scaffold import Framework

pytestmark = pytest.mark.docker

STEPS = [
    "manifest",
    "build",
    "image policy",
    HELLO_STEP,
    ONE_PICTURE_STEP,
    BATCH_STEP,
    "limits",
    "replay",
    "memory and time",
    "expected score",
]
LOAD = "    def load(self, task):\n"
GUARD = 'if __name__ == "__main__":\n'


@dataclass(frozen=True)
class Broken:
    """What is broken: text of the player (or of another file) that is replaced, and what the check says of it.

    `mended` is what the remedy makes of the broken text; None: the text as it was before.
    """

    side: Side
    step: str
    fault: str
    remedy: str
    before: str
    after: str
    mended: str | None = None
    file: str = "player.py"
    says: str = ""


BROKEN = {
    "missing entrypoint": Broken(
        *(Side.DEFENCE, HELLO_STEP, "died", "a file or a program is missing: check its name"),
        before='"player.py"]',
        after='"main.py"]',
        file="Dockerfile",
        says="can't open file",
    ),
    "prints before it serves": Broken(
        *(Side.DEFENCE, HELLO_STEP, "protocol", "print to stderr"),
        before="from sparring_player import",
        after='print("loading", flush=True)\nfrom sparring_player import',
        mended='import sys\nprint("loading", file=sys.stderr, flush=True)\nfrom sparring_player import',
    ),
    "wrong dtype": Broken(
        *(Side.ATTACK, ONE_PICTURE_STEP, "reported", "the traceback is on its stderr"),
        before="return self.task.within(pixels, pixels + change)",
        after="return pixels + change",
        says="uint8",
    ),
    "wrong shape": Broken(
        *(Side.ATTACK, ONE_PICTURE_STEP, "reported", "the traceback is on its stderr"),
        before="return self.task.within(pixels, pixels + change)",
        after="return self.task.within(pixels, pixels + change)[:, :, 1:]",
        says="shape",
    ),
    "exceeds memory": Broken(
        *(Side.DEFENCE, HELLO_STEP, "out-of-memory", "use less memory"),
        before=LOAD,
        after=LOAD + "        self.table = bytearray(b'x') * 2**30\n",
        mended=LOAD + "        self.table = bytearray(b'x') * 2**20\n",
    ),
    "needs network": Broken(
        *(Side.DEFENCE, HELLO_STEP, "reported", "a sandbox has no network"),
        before=LOAD,
        after=LOAD + "        import urllib.request\n        urllib.request.urlopen('http://example.org/weights')\n",
    ),
    "writes to root": Broken(
        *(Side.DEFENCE, HELLO_STEP, "reported", "a sandbox can write under /tmp only"),
        before=LOAD,
        after=LOAD + "        open('/opt/player/cache', 'w').close()\n",
        mended=LOAD + "        open('/tmp/cache', 'w').close()\n",
    ),
    "needs root": Broken(
        *(Side.DEFENCE, HELLO_STEP, "reported", "a sandbox runs as a user without rights"),
        before=LOAD,
        after=LOAD + "        open('/etc/shadow').close()\n",
    ),
    "slow load": Broken(
        *(Side.DEFENCE, HELLO_STEP, "deadline", "do less, or load less"),
        before=LOAD,
        after=LOAD + "        import time\n        time.sleep(60)\n",
    ),
    "slow step": Broken(
        *(Side.ATTACK, ONE_PICTURE_STEP, "deadline", "do less, or load less"),
        before="        rng = ",
        after="        import time\n        time.sleep(60)\n        rng = ",
    ),
    "crashes on the third picture": Broken(
        *(Side.DEFENCE, BATCH_STEP, "died", "its last words on stderr say why"),
        before="        flat = ",
        after="        import os\n        self.seen = getattr(self, 'seen', 0) + 1\n"
        "        if self.seen == 3:\n            os._exit(9)\n        flat = ",
    ),
    "returns NaN scores": Broken(
        *(Side.DEFENCE, ONE_PICTURE_STEP, "reported", "the traceback is on its stderr"),
        before="return scores.argmax(axis=1), scores",
        after="return scores.argmax(axis=1), scores * np.nan",
        says="NaN",
    ),
}


CONTAINERS_OWN = {
    "missing entrypoint",
    "prints before it serves",
    "needs network",
    "needs root",
    "writes to root",
    "exceeds memory",
}
"""What only a container does, or does otherwise; tests/cli/test_submission_check.py breaks players on processes."""


@pytest.fixture(scope="module")
def contest(tmp_path_factory, base_image) -> Contest:
    """A contest of ten small pictures, with tight limits and nobody to meet."""
    del base_image
    folder = tmp_path_factory.mktemp("contest")
    chance = np.random.default_rng(3)
    np.savez(folder / "pictures.npz", images=chance.integers(0, 256, (10, 4, 4), dtype=np.uint8), labels=np.arange(10))
    body = {
        "sparring": 1,
        "contest": "small",
        "title": "Small",
        "format": "tournament",
        "task": {
            "name": "noise",
            "dataset": {"kind": "npz", "path": "pictures.npz"},
            "budget": {"norm": "linf", "epsilon": 8},
        },
        "limits": {"memory": "192MiB", "ready_seconds": 6, "perturb_seconds": 20, "perturb_batch": 10, "restarts": 0},
    }
    (folder / "contest.yaml").write_text(json.dumps(body))
    return Contest(folder / "contest.yaml")


@pytest.fixture
def check(contest) -> Callable[[Path], self_check.CheckReport]:
    """Checks a folder on docker."""

    def run(folder: Path) -> self_check.CheckReport:
        with self_check.check_setup(contest, None, "docker") as under:
            return self_check.check_submission(CheckSubject(folder=folder), under, lambda _: None)

    return run


def submission(side: Side, above: Path) -> Path:
    """Makes the folder of a submission in which nothing is broken."""
    wanted = scaffold.ScaffoldRequest(side, "broken_one", Framework.NUMPY, scaffold.DEFAULT_LICENCE)
    return scaffold.create_submission(wanted, above / "broken_one").folder


@pytest.mark.parametrize(
    "name", [name if name in CONTAINERS_OWN else pytest.param(name, marks=pytest.mark.soak) for name in BROKEN]
)
def test_each_fails_at_its_step(check, tmp_path, name) -> None:
    """The step's number, the fault and the remedy are right."""
    broken = BROKEN[name]
    folder = submission(broken.side, tmp_path)
    file = folder / broken.file
    honest = file.read_text()
    assert honest.count(broken.before) == 1
    file.write_text(honest.replace(broken.before, broken.after))

    found = check(folder)

    last = found.steps[-1]
    assert (len(found.steps), last.name, last.passed) == (STEPS.index(broken.step) + 1, broken.step, False), last
    assert last.problem.startswith(f"{broken.fault}: "), last.problem
    assert broken.remedy in last.remedy
    assert broken.says in last.problem + found.stderr.decode()
    assert found.conversation[0].header["type"] == "hello"


@pytest.mark.parametrize("side", [Side.DEFENCE, pytest.param(Side.ATTACK, marks=pytest.mark.soak)])
def test_who_follows_the_remedies_passes(check, tmp_path, side) -> None:
    """What all remedies together make of a player passes every step; some of them only take away what was wrong."""
    folder = submission(side, tmp_path)
    for broken in BROKEN.values():
        if broken.side is side and broken.mended is not None:
            file = folder / broken.file
            file.write_text(file.read_text().replace(broken.before, broken.mended))
    again = check(folder)
    assert [step.name for step in again.steps] == STEPS
    assert [step.passed for step in again.steps] == [*[True] * 9, None], again.steps[-2:]
