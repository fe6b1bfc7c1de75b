"""Every template plays as it stands, in whatever language, on any task."""

import os
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import Budget, Norm
from orchestrator.errors import PlayerReported
from orchestrator.intake import scaffold
from orchestrator.intake.scaffold import Framework
from orchestrator.measures import norms
from orchestrator.protocol import frames
from orchestrator.protocol.messages import Role

ROOT = Path(__file__).parents[2]
SPOKEN = [Framework.PYTORCH, Framework.NUMPY, Framework.BARE, Framework.C, Framework.JAVASCRIPT]
"""What speaks the protocol in its own folder."""
TORCH = pytest.param(Framework.PYTORCH, marks=pytest.mark.slow)
"""Starting PyTorch takes longer than all else that these tests do."""
TORCH_IN_SOAK = pytest.param(Framework.PYTORCH, marks=[pytest.mark.slow, pytest.mark.soak])
"""For what the helper module does and no template, or what another test shows of this template."""
EACH = pytest.mark.parametrize("framework", [TORCH_IN_SOAK, *SPOKEN[1:]])
EACH_ALGORITHM = pytest.mark.parametrize("framework", [TORCH, *SPOKEN[1:]])
EACH_SIDE = pytest.mark.parametrize("side", list(Side))
CHECKED = pytest.mark.parametrize("framework", [TORCH_IN_SOAK, Framework.NUMPY, Framework.C, Framework.JAVASCRIPT])
"""The bare player shows frames and no checks: what it is not asked in a round it does not look at."""
TRAINED = pytest.mark.parametrize("framework", [Framework.NUMPY, TORCH])
NO_HELPER = pytest.mark.parametrize("framework", [Framework.BARE, Framework.C, Framework.JAVASCRIPT, Framework.FILES])
COLOUR = [3, 32, 32]
SECONDS = 60


def noise(count: int, shape: list[int]) -> np.ndarray:
    """Returns random pictures, uint8 [count, *shape]."""
    return np.random.default_rng(3).integers(0, 256, (count, *shape), np.uint8)


@EACH_ALGORITHM
@pytest.mark.parametrize(("norm", "epsilon", "shape"), [("linf", 8, COLOUR), ("l2", 40.5, [1, 8, 8])])
def test_an_attack_keeps_the_budget(open_player, framework, norm, epsilon, shape):
    """On any task every candidate moves, and none leaves the budget; the same batch gets the same candidates."""
    keep_budget(open_player, framework, norm, epsilon, shape)


@pytest.mark.slow
@EACH
@pytest.mark.parametrize(
    ("norm", "epsilon", "shape"), [("linf", 2.5, [1, 8, 8]), ("linf", 300, [1, 8, 8]), ("l2", 128, COLOUR)]
)
def test_an_attack_keeps_an_unusual_budget(open_player, framework, norm, epsilon, shape):
    """The same holds for a part of a step, for more steps than there are, and for few steps of a large picture."""
    keep_budget(open_player, framework, norm, epsilon, shape)


def keep_budget(open_player, framework, norm, epsilon, shape):
    """Asserts that an attack's candidates move, repeat themselves and are in the budget."""
    player = open_player(Side.ATTACK, framework, norm=norm, epsilon=epsilon, shape=shape)
    pixels, labels = noise(7, shape), np.arange(7)
    made = player.perturb(pixels, labels)
    blind = player.perturb(pixels, None)
    assert np.array_equal(player.perturb(pixels, labels), made)
    assert player.leave() == 0
    for candidates in (made, blind):
        assert norms.within_budget(pixels, candidates, Budget(Norm(norm), epsilon)).all()
        assert (candidates != pixels).mean() > 0.7


@EACH_ALGORITHM
def test_an_attack_serves_any_seed_and_one_picture(open_player, framework):
    """The largest seed, a picture of one value and a batch of one are served."""
    player = open_player(Side.ATTACK, framework, seed=2**53, shape=[1, 1, 1])
    assert player.perturb(np.full((1, 1, 1, 1), 100, np.uint8), np.array([9])).shape == (1, 1, 1, 1)


@EACH_ALGORITHM
def test_an_attack_serves_what_teaches_nothing(open_player, framework):
    """A single picture of the first class moves, and black or white pictures of one class are answered."""
    player = open_player(Side.ATTACK, framework)
    pixels = noise(1, [1, 8, 8])
    assert (player.perturb(pixels, np.array([0])) != pixels).mean() > 0.9
    for value in (0, 255):
        flat = np.full((3, 1, 8, 8), value, np.uint8)
        assert np.abs(player.perturb(flat, np.zeros(3, int)).astype(int) - value).max() <= 51


@pytest.mark.slow
@EACH
def test_a_large_batch_arrives_whole(open_player, framework):
    """A question far larger than a pipe holds, and its answer, go through, whatever the payload limit of an answer."""
    pixels = noise(300, COLOUR)
    attack = open_player(Side.ATTACK, framework, shape=COLOUR, epsilon=8, payload_limit=10_000)
    made = attack.perturb(pixels, np.arange(300) % 10)
    assert not attack.session.undelivered
    assert np.abs(made.astype(int) - pixels).max() <= 8
    defence = open_player(Side.DEFENCE, framework, shape=COLOUR)
    assert len(defence.classify(pixels)) == 300


@pytest.mark.slow
@EACH_ALGORITHM
def test_a_defence_answers_the_same_alone(open_player, framework, test_digits):
    """A picture's label depends on no other picture; all greys are served.

    What a train.py made on the training digits reads at least 94 % of those that tasks play with.
    """
    player = open_player(Side.DEFENCE, framework)
    greys = np.arange(256, dtype=np.uint8).reshape(-1, 1, 1, 1).repeat(8, axis=2).repeat(8, axis=3)
    pixels = np.concatenate([test_digits.pixels[:40], greys])
    together = player.classify(pixels)
    assert [player.classify(pixels[place : place + 1])[0] for place in range(0, len(pixels), 7)] == together[::7]
    if framework in {Framework.NUMPY, Framework.PYTORCH}:
        assert (np.array(player.classify(test_digits.pixels)) == test_digits.labels).mean() >= 0.94
    assert player.leave() == 0


@NO_HELPER
def test_a_defence_goes_by_brightness(open_player, framework):
    """The rule that is to be replaced is the same in every language: the class that the mean brightness falls into."""
    player = open_player(Side.DEFENCE, framework)
    pixels = np.arange(256, dtype=np.uint8).reshape(-1, 1, 1, 1).repeat(8, axis=2).repeat(8, axis=3)
    assert player.classify(pixels) == [value * 10 // 256 for value in range(256)]


@pytest.mark.slow
def test_the_gradient_step_on_the_batch_fools_another_network(open_player, start, test_digits):
    """The PyTorch attack costs the organizers' undefended network a third of 128 digits; the random one, little."""
    folder = ROOT / "images" / "defence_undefended"
    judge = start([sys.executable, "player.py"], folder, Role.DEFENCE)
    judge.hello()
    samples, right = test_digits.first(128), {}
    for framework in (Framework.PYTORCH, Framework.NUMPY):
        attack = open_player(Side.ATTACK, framework)
        halves = [(samples.pixels[each], samples.labels[each]) for each in (slice(64), slice(64, 128))]
        made = np.concatenate([attack.perturb(*half) for half in halves])
        right[framework] = (np.array(judge.classify(made)) == samples.labels).mean()
    assert right[Framework.PYTORCH] < 0.67
    assert right[Framework.NUMPY] > 0.85


@pytest.mark.slow
@TRAINED
def test_a_model_that_does_not_fit_says_so(start, template, launch, framework):
    """Where its model does not fit the task a defence plays, the same in each sandbox, and its log says why."""
    folder = template(Side.DEFENCE, framework)
    answers = []
    for seed in (1, 2):
        player = start(launch(folder), folder, Role.DEFENCE, shape=COLOUR, seed=seed, keep_log=True)
        player.hello()
        answers.append(player.classify(noise(5, COLOUR)))
        assert player.leave() == 0
        assert "does not fit" in player.log.read_text()
    assert answers[0] == answers[1]


@pytest.mark.slow
@pytest.mark.parametrize("framework", [Framework.NUMPY, TORCH_IN_SOAK])
def test_training_takes_other_data(template, tmp_path, framework):
    """`train.py --data` makes a model of any archive, which any user may read.

    tests/house/test_own_model.py plays with what PyTorch's made.
    """
    folder = tmp_path / "mine"
    shutil.copytree(template(Side.DEFENCE, framework), folder, ignore=shutil.ignore_patterns("__pycache__"))
    labels = np.arange(60) % 3
    pixels = np.full((60, 3, 6, 5), 20, np.uint8) + (labels * 90).astype(np.uint8).reshape(-1, 1, 1, 1)
    np.savez(tmp_path / "train.npz", images=pixels, labels=labels)  # as a contest's own archive has it
    train = [sys.executable, "train.py", "--data", str(tmp_path / "train.npz")]
    done = subprocess.run(train, cwd=folder, capture_output=True, text=True, check=True, timeout=SECONDS)
    assert "60 pictures, " in done.stdout
    (made,) = [path for path in folder.iterdir() if path.suffix in {".npz", ".safetensors"}]
    assert made.stat().st_mode & 0o044, "a player that runs as somebody else has to read it"
    assert made.read_bytes() != (template(Side.DEFENCE, framework) / made.name).read_bytes()


@TRAINED
def test_training_reads_channels_first_and_last(template, tmp_path, framework, monkeypatch):
    """`train.py` reads the same pictures from an archive with the channels first, and with the channels last."""
    folder = template(Side.DEFENCE, framework)
    monkeypatch.syspath_prepend(str(folder))
    pixels = np.random.default_rng(0).integers(0, 256, (4, 3, 6, 5)).astype(np.uint8)
    for images in (pixels, pixels.transpose(0, 2, 3, 1)):
        np.savez(tmp_path / "train.npz", images=images, labels=np.arange(4))
        read, labels = runpy.run_path(str(folder / "train.py"))["read"](tmp_path / "train.npz")
        np.testing.assert_array_equal(read, pixels)
        np.testing.assert_array_equal(labels, np.arange(4))


@TRAINED
def test_training_refuses_what_is_no_archive_of_pictures(template, tmp_path, framework, monkeypatch):
    """Floats from 0 to 1, another name for the images, and a path that leads nowhere end in one line."""
    folder = template(Side.DEFENCE, framework)
    monkeypatch.syspath_prepend(str(folder))
    read = runpy.run_path(str(folder / "train.py"))["read"]
    np.savez(tmp_path / "floats.npz", images=np.zeros((4, 6, 5)), labels=np.arange(4))
    np.savez(tmp_path / "other.npz", pictures=np.zeros((4, 6, 5), np.uint8), labels=np.arange(4))
    with pytest.raises(SystemExit, match="images are float64; make them uint8, from 0 to 255"):
        read(tmp_path / "floats.npz")
    for name in ("other.npz", "absent.npz"):
        with pytest.raises(SystemExit, match=f"{name} is no archive of images and labels: "):
            read(tmp_path / name)


@CHECKED
@EACH_SIDE
def test_the_other_side_is_declined(start, template, launch, side, framework):
    """A player that is asked to play the side that it does not play says so at `hello`."""
    other = Role.DEFENCE if side is Side.ATTACK else Role.ATTACK
    folder = template(side, framework)
    player = start(launch(folder), folder, other)
    with pytest.raises(PlayerReported, match=r"play"):
        player.hello()


@EACH
@EACH_SIDE
def test_an_unknown_question_is_reported(open_player, side, framework):
    """What the player does not know it says, by `fault`, and names the question's id."""
    player = open_player(side, framework)
    player.session.ask_perturb(noise(1, [1, 8, 8]), None) if side is Side.ATTACK else player.session.ask_classify(
        noise(1, [1, 8, 8])
    )
    with pytest.raises(PlayerReported):
        player.ask(frames.encode_frame({"type": "riddle", "id": 2}))


@pytest.mark.slow
@EACH
def test_a_question_may_come_in_pieces(open_player, framework):
    """A question that arrives byte by byte, with the next one's beginning behind it, is the same question."""
    player = open_player(Side.DEFENCE, framework)
    pixels = noise(2, [1, 8, 8])
    expected = player.classify(pixels)
    question = player.session.ask_classify(pixels)
    for at in range(len(question) - 1):
        player.process.stdin.write(question[at : at + 1])
        player.process.stdin.flush()
        time.sleep(0.0002)
    assert list(player.ask(question[-1:])[0].labels) == expected
    player.process.stdin.write(player.session.ask_classify(pixels) + frames.encode_frame({"type": "bye", "id": 5}))
    player.process.stdin.flush()
    replies = []
    while not replies:  # an answer may come in pieces as well
        data = os.read(player.process.stdout.fileno(), 2**20)
        assert data, "the player ended before it answered"
        replies = list(player.session.feed(data))
    assert [list(each.labels) for each in replies] == [expected]
    assert player.process.wait(SECONDS) == 0


@EACH
@EACH_SIDE
def test_a_player_leaves_when_standard_input_ends(open_player, side, framework):
    """A player whose orchestrator is gone exits by itself, with 0, also in the middle of a question."""
    player = open_player(side, framework)
    player.process.stdin.write(b"SPI1\x10\x00")
    player.process.stdin.close()
    assert player.process.wait(SECONDS) == 0


@EACH
def test_what_is_printed_goes_to_the_log(template, start, launch, tmp_path, framework):
    """A print in the middle of a step does not get between the frames; it is in the log."""
    folder = tmp_path / "mine"
    shutil.copytree(template(Side.DEFENCE, framework), folder, ignore=shutil.ignore_patterns("__pycache__", "player"))
    player = folder / next(name for name in ("player.py", "player.c", "player.mjs") if (folder / name).exists())
    text, marked = (
        player.read_text(),
        next(line for line in player.read_text().splitlines() if scaffold.EDIT_MARK in line),
    )
    indent = marked[: len(marked) - len(marked.lstrip())]
    word = {".py": 'print("stray")', ".mjs": 'console.log("stray");', ".c": 'puts("stray"), fflush(stdout);'}
    player.write_text(text.replace(marked, f"{indent}{word[player.suffix]}\n{marked}"))
    if framework is Framework.C:
        player.write_text("#include <stdio.h>\n" + player.read_text())
        subprocess.run(["make", "--silent"], cwd=folder, check=True, timeout=SECONDS)
    opened = start(launch(folder), folder, Role.DEFENCE, keep_log=True)
    opened.hello()
    assert len(opened.classify(noise(2, [1, 8, 8]))) == 2
    assert opened.leave() == 0
    assert "stray" in opened.log.read_text()
