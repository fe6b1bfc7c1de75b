"""The participant's helper: what it protects, what it forgives, and what it tells a student."""

import ast
import subprocess
import sys

import numpy as np
import pytest

from orchestrator.errors import PlayerReported
from orchestrator.protocol.messages import Capability, Role

from .conftest import ATTACK, DEFENCE, HELPER, PIXELS

LABELS = np.array([1, 2, 3])


def complaint(player, question: bytes) -> str:
    """Returns the code and text of the fault that the question ends in."""
    with pytest.raises(PlayerReported) as caught:
        player.ask(question)
    return str(caught.value)


def test_helper_is_python_3_8_with_numpy_alone():
    """The helper parses as Python 3.8 and imports the standard library and NumPy only."""
    tree = ast.parse(HELPER.read_text(), feature_version=(3, 8))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module.split(".")[0])
    assert "numpy" in imported
    assert imported - {"numpy"} <= sys.stdlib_module_names


def test_helper_moves_the_pipes_before_it_imports_numpy():
    """What NumPy printed while it is imported would reach stderr, not the wire."""
    loud = "import sys; print('before')\n"
    finder = (
        "class Loud:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'numpy': print('numpy speaks')\n"
        "sys.meta_path.insert(0, Loud())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", loud + finder + "import sparring_player"],
        cwd=HELPER.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "before\n"
    assert "numpy speaks" in done.stderr


def test_prints_go_to_the_log_and_input_finds_nothing(written):
    """Neither print, nor a child program's output, nor input() disturbs the conversation."""
    body = (
        "print('hello'); import os, subprocess; os.write(1, b'raw'); subprocess.run(['echo', 'child'], check=True)\n"
        "        assert subprocess.run(['cat'], capture_output=True, check=True).stdout == b''\n"
        "        return pixels[:, 0, 0, 0] % 10"
    )
    player = written(DEFENCE.format(scores=False, body=body), Role.DEFENCE)
    assert player.classify(PIXELS) == [0, 4, 8]
    assert player.leave() == 0
    log = player.log.read_text()
    assert "hello" in log
    assert "raw" in log
    assert "child" in log


def test_the_collector_rests_until_it_serves(written):
    """While a player imports nothing is collected; while it answers garbage is, and what was there before is left."""
    body = "return [int(rested), int(gc.isenabled()), int(gc.get_freeze_count() > 10_000)]"
    source = DEFENCE.format(scores=False, body=body).replace(
        "class Mine", "import gc\nrested = not gc.isenabled()\nclass Mine"
    )
    assert written(source, Role.DEFENCE).classify(PIXELS) == [1, 1, 1]


def test_player_leaves_when_stdin_ends(written):
    """A player whose orchestrator is gone exits by itself."""
    player = written(DEFENCE.format(scores=False, body="return [0]"), Role.DEFENCE)
    player.process.stdin.close()
    assert player.process.wait(10) == 0


@pytest.mark.slow
def test_ready_says_what_the_class_gives(written):
    """Scores are given where the class says so, gradients where it has the method."""
    plain = written(DEFENCE.format(scores=False, body="return [0]"), Role.DEFENCE, greet=False).hello()
    assert plain.name == "Mine"
    assert plain.capabilities == {Capability.LABEL}
    source = DEFENCE.format(scores=True, body="return [0]").replace(
        "    def classify", "    def gradient(self, pixels, labels):\n        return pixels / 2\n    def classify"
    )
    rich = written(source, Role.DEFENCE)
    (reply,) = rich.ask(rich.session.ask_gradient(PIXELS, [1, 2, 3]))
    assert np.array_equal(reply.gradients, PIXELS / np.float32(2))


def test_attack_gives_nothing_but_its_name(written):
    """An attack answers `hello` with no capabilities."""
    assert written(ATTACK.format(body="return pixels"), Role.ATTACK, greet=False).hello().capabilities == set()


def test_labels_and_scores_arrive_as_they_were_returned(written):
    """A pair of labels and scores is sent whole; None abstains; NumPy integers are labels."""
    body = "return [np.int32(3), None, 9], np.arange(30.).reshape(3, 10)"
    player = written(DEFENCE.format(scores=True, body=body), Role.DEFENCE)
    (reply,) = player.ask(player.session.ask_classify(PIXELS))
    assert reply.labels == (3, None, 9)
    assert np.array_equal(reply.scores, np.arange(30).reshape(3, 10))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "return pixels / np.float32(255)",
            "pixels must be uint8 0..255, got float32; did you forget (x * 255).round().astype('uint8')?",
        ),
        (
            "return pixels.astype(int) + 8",
            "pixels must be uint8 0..255, got int64; did you forget x.clip(0, 255).astype('uint8')?",
        ),
        ("return pixels[:2]", "pixels must have shape (3, 1, 8, 8), got (2, 1, 8, 8)"),
        (
            "return pixels.transpose(0, 2, 3, 1)",
            "pixels must have shape (3, 1, 8, 8), got (3, 8, 8, 1); "  # noqa: ISC004  one sentence
            "channels come first, did you forget x.transpose(0, 3, 1, 2)?",
        ),
        (
            "return None",
            "perturb must return one uint8 array, or yield pairs (positions, pixels); got NoneType",
        ),
        ("yield pixels", "perturb must yield pairs (positions, pixels), got an array of uint8 (3, 1, 8, 8)"),
        ("yield [0, 0], pixels[:2]", "positions [0, 0] were not asked for, or came twice; the batch has 3"),
        ("yield 3, pixels[0]", "positions [3] were not asked for, or came twice; the batch has 3"),
        ("yield 1, pixels[1]", "perturb ended without the pictures at positions [0, 2]"),
        (
            "yield 1, type('Tensor', (), {'detach': None})()",
            "pixels must be a NumPy array, got Tensor; did you forget .cpu().numpy()?",
        ),
    ],
)
def test_attack_is_told_what_is_wrong_with_its_candidates(written, body, said):
    """A wrong candidate becomes a fault that says what was expected, what came, and the likely cure."""
    player = written(ATTACK.format(body=body), Role.ATTACK)
    told = complaint(player, player.session.ask_perturb(PIXELS, LABELS.tolist()))
    assert told == f"the player reported 'reply': {said}"


@pytest.mark.parametrize(
    ("scores", "body", "said"),
    [
        (False, "return [1, 2]", "2 labels for 3 pictures"),
        (False, "return [1, 2, 10]", "a label must be an int from 0 to 9 or None, got 10"),
        (False, "return [1, 2, -1]", "a label must be an int from 0 to 9 or None, got -1"),
        (False, "return [1, 2, 3.0]", "a label must be an int from 0 to 9 or None, got float"),
        (False, "return [1, 2, True]", "a label must be an int from 0 to 9 or None, got bool"),
        (
            False,
            "return np.zeros((3, 10))",
            "labels must be a flat list, got shape (3, 10); did you forget .argmax(axis=1)?",
        ),
        (False, "return 3", "classify must return a list of 3 labels, got int"),
        (
            False,
            "return [1, 2, 3], np.zeros((3, 10))",
            "classify returned scores, but the class does not say `scores = True`",
        ),
        (True, "return [1, 2, 3]", "with `scores = True` classify must return (labels, scores), got list"),
        (True, "return [1, 2, 3], np.zeros((3, 9))", "scores must have shape (3, 10), got (3, 9)"),
        (True, "return [1, 2, 3], np.full((3, 10), np.nan)", "scores must not be NaN, but 30 of 30 are"),
    ],
)
def test_defence_is_told_what_is_wrong_with_its_labels(written, scores, body, said):
    """A wrong answer becomes a fault that says what was expected, what came, and the likely cure."""
    player = written(DEFENCE.format(scores=scores, body=body), Role.DEFENCE)
    assert complaint(player, player.session.ask_classify(PIXELS)) == f"the player reported 'reply': {said}"


def test_exception_is_reported_and_its_traceback_logged(written):
    """An exception in the participant's code is a fault with its text; the traceback is in the log."""
    player = written(DEFENCE.format(scores=False, body="return {}['nothing']"), Role.DEFENCE)
    told = complaint(player, player.session.ask_classify(PIXELS))
    assert told == "the player reported 'exception': KeyError: 'nothing'"
    player.process.stdin.close()
    assert player.process.wait(10) == 0
    log = player.log.read_text()
    assert "Traceback" in log
    assert "return {}['nothing']" in log


def test_loading_that_fails_is_reported(written):
    """An exception in `load` answers `hello` with a fault."""
    source = ATTACK.format(body="return pixels").replace("self.task = task", "raise OSError('no weights')")
    player = written(source, Role.ATTACK, greet=False)
    with pytest.raises(PlayerReported, match="OSError: no weights"):
        player.hello()


def test_attack_cannot_play_defence(written):
    """A class without the method its role needs is told so at once."""
    player = written(ATTACK.format(body="return pixels"), Role.DEFENCE, greet=False)
    with pytest.raises(PlayerReported, match="Mine plays defence and needs a method classify"):
        player.hello()


@pytest.mark.slow
def test_pieces_arrive_as_they_are_made(written):
    """Pairs that perturb yields are separate replies, and what came before a failure has been delivered."""
    body = "yield 2, 255 - pixels[2]\n        yield [0, 1], 255 - pixels[:2]"
    player = written(ATTACK.format(body=body), Role.ATTACK)
    replies = player.ask(player.session.ask_perturb(PIXELS, None))
    assert [reply.index for reply in replies] == [(2,), (0, 1)]
    assert np.array_equal(np.concatenate([reply.pixels for reply in replies]), 255 - PIXELS[[2, 0, 1]])

    player = written(ATTACK.format(body="yield 1, pixels[1]\n        raise ValueError('enough')"), Role.ATTACK)
    with pytest.raises(PlayerReported, match="ValueError: enough"):
        player.ask(player.session.ask_perturb(PIXELS, None))
    assert player.session.undelivered == {0, 2}


def test_long_replies_are_cut_to_the_payload_limit(written):
    """A batch larger than the payload limit arrives in several messages, whole."""
    player = written(ATTACK.format(body="return 255 - pixels"), Role.ATTACK, payload_limit=150)
    replies = player.ask(player.session.ask_perturb(PIXELS, LABELS.tolist()))
    assert [reply.index for reply in replies] == [(0, 1), (2,)]
    assert np.array_equal(np.concatenate([reply.pixels for reply in replies]), 255 - PIXELS)


def test_hidden_labels_are_none(written):
    """An attack sees None where the contest hides labels, and an integer array where it gives them."""
    body = "return pixels if labels is None else (pixels + labels[:, None, None, None]).astype(np.uint8)"
    player = written(ATTACK.format(body=body), Role.ATTACK)
    assert np.array_equal(player.perturb(PIXELS, None), PIXELS)
    assert np.array_equal(player.perturb(PIXELS, LABELS), PIXELS + LABELS[:, None, None, None].astype(np.uint8))


DRAWING = """
from sparring_player import Defence, serve
class Mine(Defence):
    def load(self, task):
        self.task = task
    def classify(self, pixels):
        {body}
serve(Mine())
"""


@pytest.mark.parametrize("parameters", ["self, pixels, seeds", "self, pixels, *, seeds=None"])
def test_a_defence_that_asks_for_seeds_gets_one_for_each_picture(written, parameters):
    """`classify(pixels, seeds)` is given the seeds of the question (U13), and None where there is none."""
    body = (
        "return [None] * len(pixels) if seeds is None else [int(np.random.default_rng(s).integers(10)) for s in seeds]"
    )
    source = DEFENCE.format(scores=False, body=body).replace("self, pixels", parameters)
    player, seeds = written(source, Role.DEFENCE), [2**53, 0, 7]
    (reply,) = player.ask(player.session.ask_classify(PIXELS, seeds))
    assert reply.labels == tuple(int(np.random.default_rng(seed).integers(10)) for seed in seeds)
    assert player.classify(PIXELS) == [None, None, None]


@pytest.mark.slow
@pytest.mark.parametrize("drawn", ["map(self.task.rng, pixels)", "(self.task.rng() for _ in pixels)"])
def test_a_defence_that_draws_as_the_helper_says_is_honest(written, drawn):
    """The same picture gets the same chance whatever seed a sandbox is told, before or beside whatever else."""
    body = f"return [int(rng.integers(10)) for rng in {drawn}]"
    first, other = (written(DRAWING.format(body=body), Role.DEFENCE, seed=seed) for seed in (7, 2**53))
    answers = first.classify(PIXELS)
    assert other.classify(PIXELS[::-1]) == answers[::-1]
    assert [other.classify(picture[None])[0] for picture in PIXELS] == answers
    assert first.classify(PIXELS) == answers


def test_a_defence_gets_other_chance_for_other_pictures(written):
    """It is the picture that decides: of 64 different ones not all draw alike."""
    pixels = np.random.default_rng(0).integers(0, 256, (64, 1, 8, 8), np.uint8)
    body = "return [int(self.task.rng(picture).integers(10)) for picture in pixels]"
    assert len(set(written(DRAWING.format(body=body), Role.DEFENCE).classify(pixels))) > 5


def test_a_defence_draws_for_one_picture(written):
    """Chance of a whole question would make an answer depend on the pictures beside it: the helper says what to do."""
    player = written(DRAWING.format(body="return self.task.rng(pixels).integers(10, size=len(pixels))"), Role.DEFENCE)
    told = complaint(player, player.session.ask_classify(PIXELS))
    assert "a defence takes chance from one picture: call task.rng(pixels[i]) for each" in told


def test_task_and_its_chance_are_the_orchestrators(written):
    """The task repeats what `hello` said, and an attack's rng() depends on the seed and the batch alone."""
    body = (
        "t = self.task\n"
        "        told = [len(t.classes), *t.shape, t.norm == 'linf', int(t.epsilon), t.seed, t.threads, t.batch]\n"
        "        told += [*t.rng().integers(0, 255, 5), *t.rng(pixels).integers(0, 255, 5)]\n"
        "        return np.resize(np.array(told, np.uint8), pixels.shape)"
    )
    first = written(ATTACK.format(body=body), Role.ATTACK, seed=7).perturb(PIXELS, None).reshape(-1)
    later = written(ATTACK.format(body=body), Role.ATTACK, seed=7)
    other = later.perturb(PIXELS + 1, None).reshape(-1)
    again = later.perturb(PIXELS, None).reshape(-1)
    assert first[:9].tolist() == [10, 1, 8, 8, 1, 51, 7, 1, 64]
    assert np.array_equal(first, again)
    assert np.array_equal(first[9:14], other[9:14])
    assert not np.array_equal(first[14:19], other[14:19])
