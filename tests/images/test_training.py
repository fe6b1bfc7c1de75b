"""The program that trains the baselines' networks, and the weights it left."""

import hashlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors import safe_open

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("PyTorch")]  # one worker imports it, which takes seconds
IMAGES = Path(__file__).parents[2] / "images"
CASES = [
    ("defence_undefended", "clean", 0, 491),
    ("attack_fgsm", "clean", 1, 489),
    ("defence_fgsm_trained", "fgsm", 0, 489),
]


def facts(path: Path) -> dict:
    """Returns what a weights file says about its making."""
    with safe_open(path, "np") as weights:
        return json.loads(weights.metadata()["sparring"])


@pytest.fixture
def train(monkeypatch, train_digits, tmp_path, capsys):
    """Runs the program for one epoch on 128 digits and returns the file it wrote."""
    import sparring_training  # noqa: PLC0415  it brings PyTorch

    np.savez(tmp_path / "train.npz", pixels=train_digits.pixels[:128], labels=train_digits.labels[:128])

    def run(name: str, *more: str) -> Path:
        out = tmp_path / name
        words = ["--data", str(tmp_path / "train.npz"), "--architecture", "digits_cnn", "--epochs", "1"]
        monkeypatch.setattr(sys, "argv", ["sparring_training.py", *words, "--out", str(out), *more])
        sparring_training.main()
        assert json.loads(capsys.readouterr().out) == facts(out)
        return out

    return run


@pytest.mark.parametrize("recipe", ["clean", "fgsm"])
def test_training_is_reproducible_bit_for_bit(train, recipe):
    """The same data, recipe and seed give the same file; another seed gives another."""
    first = train("first", "--recipe", recipe, "--epsilon", "51", "--seed", "3").read_bytes()
    assert train("again", "--recipe", recipe, "--epsilon", "51", "--seed", "3").read_bytes() == first
    assert train("other", "--recipe", recipe, "--epsilon", "51", "--seed", "4").read_bytes() != first


def test_the_steps_are_those_of_pytorch():
    """The optimizer changes a network exactly as `torch.optim.Adam` does."""
    import sparring_training  # noqa: PLC0415  it brings PyTorch
    import torch  # noqa: PLC0415  it takes a second

    ours, theirs = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    optimizer, reference = sparring_training.Adam(ours), torch.optim.Adam(theirs.parameters(), lr=1e-3)
    for _ in range(20):
        x = torch.rand(4, 5)
        optimizer.step(ours(x).square().sum())
        reference.zero_grad()
        theirs(x).square().sum().backward()
        reference.step()
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.bias, theirs.bias)


def test_epsilon_matters_to_fgsm_alone(train):
    """The fgsm recipe learns from its budget and records it; the clean one has none."""
    small, large = (train(name, "--recipe", "fgsm", "--epsilon", name) for name in ("8", "51"))
    assert small.read_bytes() != large.read_bytes()
    assert facts(large)["epsilon"] == 51
    clean = [train(name, "--recipe", "clean", "--epsilon", name) for name in ("8", "51")]
    assert clean[0].read_bytes() == clean[1].read_bytes()
    assert "epsilon" not in facts(clean[0])


def test_pictures_of_another_shape_are_refused(train):
    """The program says which shape the network takes and which the archive holds."""
    with pytest.raises(SystemExit, match=r"cifar_net takes pictures of shape \(3, 32, 32\), these are \(1, 8, 8\)"):
        train("out", "--recipe", "clean", "--architecture", "cifar_net")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_committed_weights_are_what_they_say(train_digits, test_digits, case):
    """Each weights file names its recipe, seed and training data, and reaches its accuracy on the test digits."""
    import sparring_models  # noqa: PLC0415  it brings PyTorch

    folder, recipe, seed, correct = case
    path = IMAGES / folder / "weights.safetensors"
    said = facts(path)
    data = train_digits.pixels.tobytes() + train_digits.labels.astype("<i8").tobytes()
    assert (said["recipe"], said["seed"], said["epochs"]) == (recipe, seed, 30)
    assert said["data_sha256"] == hashlib.sha256(data).hexdigest()
    task = SimpleNamespace(shape=(1, 8, 8), classes=tuple("0123456789"), threads=1)
    seen = sparring_models.logits(sparring_models.load_network(path, task), test_digits.pixels).argmax(axis=1)
    assert (seen == test_digits.labels).sum() == correct


def test_weights_stay_small_and_few():
    """The baselines share three networks, together under 500 kB, and the surrogate is not the undefended defence."""
    found = {}
    for path in IMAGES.glob("*/weights.safetensors"):
        found.setdefault(path.read_bytes(), set()).add(path.parent.name)
    surrogates = {"attack_fgsm", "attack_bim", "attack_pgd", "attack_cw_l2"}
    assert sorted(found.values(), key=len) == [
        {"defence_fgsm_trained"},
        {"defence_undefended", "defence_bit_depth"},
        surrogates,
    ]
    assert sum(len(content) for content in found) < 500_000
