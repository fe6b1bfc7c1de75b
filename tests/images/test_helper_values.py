"""The participant's helper: budgets, tensors, and what a student gets wrong; on every Python that it promises."""

import ast
import os
import pty
import subprocess
import sys

import numpy as np
import pytest

from orchestrator.domain.tasks import Budget, Norm
from orchestrator.errors import PlayerReported
from orchestrator.measures import norms
from orchestrator.protocol.messages import Role

from .conftest import ATTACK, DEFENCE, HELPER, PIXELS


def complaint(player, question: bytes) -> str:
    """Returns what the fault says that the question ends in."""
    with pytest.raises(PlayerReported) as caught:
        player.ask(question)
    return str(caught.value).removeprefix("the player reported ")


@pytest.mark.parametrize("minor", range(8, 14))
def test_every_promised_python_reads_the_helper(minor):
    """The standard parser takes the helper for Python 3.8 to 3.13."""
    ast.parse(HELPER.read_text(), feature_version=(3, minor))


@pytest.mark.parametrize("version", [f"py3{minor}" for minor in range(8, 14)])
def test_ruff_finds_nothing_newer_in_the_helper(version):
    """ruff, told that the target is Python 3.8 to 3.13, finds neither newer syntax nor an undefined name."""
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--target-version", version]
    done = subprocess.run([*words, "--select", "E9,F", HELPER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "All checks passed" in done.stdout


def test_ruff_would_find_newer_syntax(tmp_path):
    """The test above can fail: a match statement is too new for Python 3.9."""
    (tmp_path / "new.py").write_text("match 1:\n    case 1:\n        pass\n")
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--target-version", "py39"]
    done = subprocess.run([*words, "--select", "E9,F", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "match" in done.stdout


@pytest.mark.parametrize(("norm", "epsilon"), [("linf", 8), ("linf", 2.9), ("l2", 40), ("l2", 12.345), ("l2", 5)])
def test_within_keeps_every_budget(written, norm, epsilon):
    """Whatever an attack wants, what `within` returns is uint8 and in the budget; what was in it stays, rounded."""
    every = ["pixels + 1000.0", "pixels - 3.7", "255 - pixels", "noise", "pixels + 5 * one"]
    body = (
        "one = np.zeros(pixels.shape); one[:, 0, 3, 3] = 1; noise = self.task.rng().normal(100, 500, pixels.shape)\n"
        "        self.asked = getattr(self, 'asked', -1) + 1\n"
        f"        return self.task.within(pixels, [{', '.join(every)}][self.asked])"
    )
    player = written(ATTACK.format(body=body), Role.ATTACK, norm=norm, epsilon=epsilon)
    for wanted in every:
        _judge(player.perturb(PIXELS, None), norm, epsilon, wanted)


def _judge(made, norm, epsilon, wanted):
    """Asserts that pictures are in the budget, and as much of what was wanted as it lets them be."""
    assert norms.within_budget(PIXELS, made, Budget(Norm(norm), epsilon)).all(), wanted
    if "one" in wanted and epsilon >= 5:
        assert np.array_equal(made[:, 0, 3, 3], PIXELS[:, 0, 3, 3] + 5)
    elif norm == "linf" and wanted == "pixels + 1000.0":
        assert np.array_equal(made, np.minimum(PIXELS.astype(int) + int(epsilon), 255))
    elif norm == "l2" and wanted != "pixels - 3.7":
        assert (np.sqrt(norms.l2_distance_squared(PIXELS, made)) > 0.85 * epsilon).all(), "the budget is used"
    else:
        assert (made != PIXELS).any()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return self.task.within(pixels, pixels[:2])", "candidates must have the pixels' shape (3, 1, 8, 8), got (2,"),
        ("return self.task.within(pixels, pixels * np.nan)", "candidates must be numbers and not NaN, got an array of"),
        ("return self.task.within(pixels, pixels > 3)", "candidates must be numbers and not NaN, got an array of bool"),
        ("return self.task.within(pixels, [1, 2])", "candidates must be a NumPy array, got list; did you forget np.a"),
        ("return list(pixels)", "perturb must return one uint8 array, or yield pairs (positions, pixels); got list"),
        ("yield [0, 1, 2], [[0]]", "pixels must be a NumPy array, got list; did you forget np.array(...)?"),
        ("yield [0.5], pixels[:1]", "positions must be one int or a flat list of them, got an array of float64 (1,)"),
        ("yield [True], pixels[:1]", "positions must be one int or a flat list of them, got an array of bool (1,)"),
        ("yield [[0, 1]], pixels[:2]", "positions must be one int or a flat list of them, got an array of int64 (1, 2"),
    ],
)
def test_an_attack_is_told_what_a_candidate_is(written, body, said):
    """What cannot be a candidate is named with what was expected."""
    player = written(ATTACK.format(body=body), Role.ATTACK)
    assert complaint(player, player.session.ask_perturb(PIXELS, None)).startswith(f"'reply': {said}")


@pytest.mark.parametrize(
    ("scores", "body", "said"),
    [
        (False, "return np.array(3)", "labels must be a flat list, got shape (); did you forget .argmax(axis=1)?"),
        (False, "return np.array([1., 2., 3.])", "a label must be an int from 0 to 9 or None, got float64"),
        (True, "return [1, 2, 3], [[0.5] * 10] * 3", "scores must be a NumPy array, got list; did you forget np.arra"),
        (True, "return [1, 2, 3], np.ones((3, 10), int)", "scores must be floats, got an array of int64 (3, 10); did"),
    ],
)
def test_a_defence_is_told_what_a_label_is(written, scores, body, said):
    """What cannot be a label or a score is named with what was expected."""
    player = written(DEFENCE.format(scores=scores, body=body), Role.DEFENCE)
    assert complaint(player, player.session.ask_classify(PIXELS)).startswith(f"'reply': {said}")


def test_a_gradient_is_not_nan(written):
    """A gradient with a NaN is refused here, with how many, before it becomes a protocol fault."""
    source = DEFENCE.format(scores=False, body="return [0]").replace(
        "    def classify",
        "    def gradient(self, pixels, labels):\n        return np.where(pixels == 0, np.nan, 1.0)\n    def classify",
    )
    player = written(source, Role.DEFENCE)
    told = complaint(player, player.session.ask_gradient(PIXELS, [1, 2, 3]))
    assert told == "'reply': gradients must not be NaN, but 1 of 192 are"


@pytest.mark.slow
def test_answers_may_be_tensors(written):
    """PyTorch tensors are welcome wherever arrays are, also those that carry a gradient, and a list of them."""
    body = (
        "import torch\n"
        "        self.asked = getattr(self, 'asked', -1) + 1\n"
        "        labels = [torch.tensor([3, 0, 9]), [torch.tensor(3), 0, torch.tensor(9)]][self.asked]\n"
        "        return labels, torch.arange(30.).reshape(3, 10).requires_grad_()"
    )
    player = written(DEFENCE.format(scores=True, body=body), Role.DEFENCE)
    for _ in range(2):
        (reply,) = player.ask(player.session.ask_classify(PIXELS))
        assert reply.labels == (3, 0, 9)
        assert np.array_equal(reply.scores, np.arange(30).reshape(3, 10))


@pytest.mark.slow
def test_candidates_may_be_tensors(written):
    """They are taken as arrays, returned or yielded, with their positions, and by `within`."""
    body = (
        "import torch\n"
        "        self.asked = getattr(self, 'asked', -1) + 1\n"
        "        made = 255 - torch.from_numpy(pixels)\n"
        "        pieces = ((torch.arange(3), made) for _ in range(1))\n"
        "        return [made, pieces, self.task.within(pixels, made.float())][self.asked]"
    )
    player = written(ATTACK.format(body=body), Role.ATTACK, epsilon=255)
    for _ in range(3):
        assert np.array_equal(player.perturb(PIXELS, None), 255 - PIXELS)


def test_an_empty_piece_is_no_error(written):
    """An attack may yield that nothing is ready yet."""
    player = written(ATTACK.format(body="yield [], pixels[:0]\n        yield range(3), pixels"), Role.ATTACK)
    assert np.array_equal(player.perturb(PIXELS, None), PIXELS)


def test_leaving_in_the_middle_is_reported(written):
    """A player that calls exit() in a step says so by fault, with the place in its log."""
    player = written(DEFENCE.format(scores=False, body="raise SystemExit('no licence for this')"), Role.DEFENCE)
    told = complaint(player, player.session.ask_classify(PIXELS))
    assert told == "'exception': SystemExit: no licence for this"
    player.close()
    assert "Traceback" in player.log.read_text()


def test_text_that_utf_8_cannot_carry_arrives(written):
    """A file name with bytes that are no UTF-8 does not make the fault itself a fault of the protocol."""
    body = r"open('\udcff weights')"
    player = written(DEFENCE.format(scores=False, body=body), Role.DEFENCE)
    assert "FileNotFoundError: " in complaint(player, player.session.ask_classify(PIXELS))


def test_a_class_is_no_player(written):
    """Forgotten parentheses are named."""
    player = written(
        DEFENCE.format(scores=False, body="return [0]").replace("Mine())", "Mine)"), Role.DEFENCE, greet=False
    )
    with pytest.raises(
        PlayerReported, match=r"serve needs an object, got the class Mine; did you forget serve\(Mine\(\)"
    ):
        player.hello()


def test_a_class_without_load_plays(written):
    """Any object with the one method plays."""
    source = (
        "from sparring_player import serve\nclass Mine:\n    name = 7\n"
        "    def classify(self, pixels):\n        return [0] * len(pixels)\nserve(Mine())\n"
    )
    player = written(source, Role.DEFENCE, greet=False)
    assert player.hello().name == "7"
    assert player.classify(PIXELS) == [0, 0, 0]


def test_output_of_native_code_goes_to_the_log(written):
    """What a C library writes to its standard output, and what a child process writes, is in the log."""
    body = (
        "import ctypes, os; c = ctypes.CDLL(None); c.puts(b'from C'); c.fflush(None)\n"
        "        os.system('echo from a shell'); os.write(1, b'from the descriptor')\n"
        "        return [0] * len(pixels)"
    )
    player = written(DEFENCE.format(scores=False, body=body), Role.DEFENCE)
    assert player.classify(PIXELS) == [0, 0, 0]
    assert player.leave() == 0
    log = player.log.read_text()
    assert all(word in log for word in ("from C", "from a shell", "from the descriptor"))


def test_a_player_started_by_hand_says_what_it_is(tmp_path):
    """In a terminal a player does not wait in silence: it names the command that talks to it."""
    (tmp_path / "player.py").write_text(DEFENCE.format(scores=False, body="return [0]"))
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "player.py"],
            cwd=tmp_path,
            env=dict(os.environ, PYTHONPATH=str(HELPER.parent)),
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 1
    assert "sparring submission debug" in done.stderr
