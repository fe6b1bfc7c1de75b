"""Every baseline and demo submission plays, over its pipes, on real digits."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from orchestrator.intake.manifest import read_manifest
from orchestrator.protocol.messages import Capability, Role

ROOT = Path(__file__).parents[2]
FOLDERS = [*ROOT.glob("images/*/player.py"), *ROOT.glob("examples/demo/submissions/*/player.py")]
ATTACKS = sorted(path.parent for path in FOLDERS if path.parent.name.startswith("attack_"))
DEFENCES = sorted(path.parent for path in FOLDERS if path.parent.name.startswith("defence_"))
COMMAND = [sys.executable, "player.py"]
PICTURES = 64
EPSILON = 51


def listed(folders: list[Path]) -> list:
    """Returns the folders as parameters; the soak tests have those that run the code of another with other settings."""
    soak = {name: [pytest.mark.soak] for name in ("attack_bim", "defence_fgsm_trained")}
    return [pytest.param(folder, id=folder.name, marks=soak.get(folder.name, ())) for folder in folders]


def moved(made, pixels) -> np.ndarray:
    """Returns the Linf distance of each candidate from its picture, in steps of 1/255."""
    return np.abs(made.astype(int) - pixels).max(axis=(1, 2, 3))


@pytest.mark.slow
@pytest.mark.parametrize("folder", listed(ATTACKS))
def test_attack_keeps_the_budget_and_repeats_itself(start, test_digits, folder):
    """An attack's candidates are the same for the same batch, with and without labels, and keep the budget.

    Two exceptions are their purpose: attack_noop moves nothing, and attack_cw_l2 leaves the ball.
    """
    samples = test_digits.first(PICTURES)
    player = start(COMMAND, folder, Role.ATTACK)
    assert player.hello().capabilities == set()
    made = player.perturb(samples.pixels, samples.labels)
    blind = player.perturb(samples.pixels, None)
    assert np.array_equal(player.perturb(samples.pixels, samples.labels), made)
    assert player.leave() == 0
    for distance in (moved(made, samples.pixels), moved(blind, samples.pixels)):
        if folder.name == "attack_noop":
            assert distance.max() == 0
        elif folder.name == "attack_cw_l2":
            assert (distance > EPSILON).mean() > 0.5
        else:
            assert distance.min() > 0
            assert distance.max() == EPSILON


@pytest.mark.slow
@pytest.mark.parametrize("folder", listed(DEFENCES))
def test_defence_reads_clean_digits_and_answers_each_alone(start, test_digits, folder):
    """A defence labels at least 90 % of clean digits correctly, and a picture's label depends on no other picture."""
    samples = test_digits.first(200)
    player = start(COMMAND, folder, Role.DEFENCE)
    gives = player.hello().capabilities
    together = player.classify(samples.pixels)
    alone = [player.classify(samples.pixels[place : place + 1])[0] for place in range(PICTURES)]
    assert alone == together[:PICTURES]
    assert (np.array(together) == samples.labels).mean() >= 0.9
    if Capability.GRADIENT in gives:
        question = player.session.ask_gradient(samples.pixels[:2], samples.labels[:2].tolist())
        (reply,) = player.ask(question)
        assert np.abs(reply.gradients).sum() > 0
    assert player.leave() == 0


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.soak
def test_attack_with_other_weights_plays_another_task(start, shared_data, tmp_path):
    """A copy of attack_fgsm with the reference weights attacks photographs within their budget.

    So it does in the rounds of tests/e2e/test_truth.py, which are not only in the soak tests.
    """
    (tmp_path / "player.py").write_bytes((ROOT / "images" / "attack_fgsm" / "player.py").read_bytes())
    weights = shared_data / "cifar10" / "models" / "cifar_resnet_clean.safetensors"
    (tmp_path / "weights.safetensors").write_bytes(weights.read_bytes())
    with np.load(shared_data / "cifar10" / "eval1000.npz", allow_pickle=False) as archive:
        pixels = np.ascontiguousarray(archive["images"][:PICTURES].transpose(0, 3, 1, 2))
        labels = archive["labels"][:PICTURES]
    player = start(COMMAND, tmp_path, Role.ATTACK, shape=[3, 32, 32], epsilon=8)
    player.hello()
    distance = moved(player.perturb(pixels, labels), pixels)
    assert distance.min() == distance.max() == 8


def test_players_of_the_manual_play(start, tmp_path):
    """The defence and the attack that images/README.md shows do what it says, and its manifest is valid."""
    blocks = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "images" / "README.md").read_text(), re.DOTALL)
    defence, attack = (text for language, text in blocks if language == "python")
    (tmp_path / "player.py").write_text(defence)
    (tmp_path / "submission.yaml").write_text(next(text for language, text in blocks if language == "yaml"))
    pixels = np.arange(0, 256, 2, dtype=np.uint8).repeat(64).reshape(-1, 1, 8, 8)
    player = start([sys.executable, *read_manifest(tmp_path).command[1:]], tmp_path, Role.DEFENCE)
    player.hello()
    assert player.classify(pixels) == [value * 10 // 256 for value in range(0, 256, 2)]

    head = "import numpy as np\nfrom sparring_player import Attack, serve\n"
    (tmp_path / "player.py").write_text(head + attack + "\nserve(Darker())\n")
    player = start(COMMAND, tmp_path, Role.ATTACK)
    player.hello()
    assert np.array_equal(player.perturb(pixels, None), np.clip(pixels.astype(int) - EPSILON, 0, 255))
