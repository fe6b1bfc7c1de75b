"""`sparring_torch`: a participant's model as a defence, and the attacks of three libraries as attacks."""

import importlib.util

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sparring_models import DigitsCNN
from torch import nn

from orchestrator.protocol.messages import Role

from .conftest import EPSILON, ROOT

pytestmark = pytest.mark.slow
WEIGHTS = ROOT / "images" / "defence_undefended" / "weights.safetensors"
SURROGATE = ROOT / "images" / "attack_fgsm" / "weights.safetensors"
PLAYER = """
from sparring_torch import serve, torch_attack, torch_defence, torch_model
from sparring_models import DigitsCNN
{more}
serve({player})
"""
IN_TURN = """
class InTurn:
    scores = True
    players = iter([{players}])
    def load(self, task):
        self.task = task
    def classify(self, pixels):
        player = next(self.players)
        player.load(self.task)
        return player.classify(pixels)
"""
ATTACKS = {
    "foolbox": ("import foolbox", "torch_attack(foolbox.attacks.LinfPGD(), DigitsCNN(), {weights!r})"),
    "torchattacks": (
        "import torchattacks",
        "torch_attack(torchattacks.PGD(torch_model(DigitsCNN(), {weights!r}), alpha=0.05))",
    ),
    "torchattacks, several in one": (
        "import torchattacks\nmodel = torch_model(DigitsCNN(), {weights!r})",
        (
            "torch_attack(torchattacks.MultiAttack([torchattacks.FGSM(model, eps=0.01), "
            "torchattacks.PGD(model, eps=0.01, alpha=0.05)]))"
        ),
    ),
    "art": (
        (
            "from art.attacks.evasion import ProjectedGradientDescent\n"
            "from art.estimators.classification import PyTorchClassifier\n"
            "import torch"
        ),
        (
            "torch_attack(ProjectedGradientDescent(PyTorchClassifier(torch_model(DigitsCNN(), {weights!r}), "
            "torch.nn.CrossEntropyLoss(), (1, 8, 8), 10, clip_values=(0, 1)), eps_step=0.05, max_iter=10))"
        ),
    ),
}

INSTALL = {
    "foolbox": "make demo installs it",
    # It pins requests 2.25, which is too old for the Docker client.
    "torchattacks": "pip install --no-deps torchattacks==3.5.1 tqdm",
    "art": "pip install adversarial-robustness-toolbox==1.20.1",
}


class Normalised(nn.Module):
    """The digits' network with a normalisation of its own, to compare with."""

    def __init__(self) -> None:
        super().__init__()
        self.network = DigitsCNN()

    def forward(self, x):
        """Returns the network's logits."""
        return self.network((x - 0.25) / 0.5)


def state_dict():
    """Returns the shipped network's weights."""
    return load_file(WEIGHTS)


def store(kind: str, folder) -> str:
    """Writes the shipped network in a way in which people store theirs; returns how a player names it."""
    if kind == "safetensors":
        save_file(state_dict(), folder / "weights.safetensors")
        return "DigitsCNN(), 'weights.safetensors'"
    if kind == "pt2":
        network = DigitsCNN()
        network.load_state_dict(state_dict())
        size = torch.export.Dim("n")
        example = torch.zeros(2, 1, 8, 8)
        torch.export.save(torch.export.export(network, (example,), dynamic_shapes=({0: size},)), folder / "model.pt2")
        return "'model.pt2'"
    weights = state_dict()
    if kind == "whole":
        weights = DigitsCNN()
    if kind == "checkpoint":
        weights = {
            "model_state_dict": {f"module.{name}": value for name, value in weights.items()},
            "optimizer_state_dict": {"state": {}, "param_groups": [{"lr": 0.1}]},
            "epoch": 3,
        }
    torch.save(weights, folder / f"{kind}.pt")
    return f"DigitsCNN(), '{kind}.pt'"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch.export
def test_a_stored_network_is_a_defence_in_one_line(written, test_digits, tmp_path) -> None:
    """Weights of safetensors, of torch.save, from a checkpoint of DataParallel and exported give the same labels.

    One process is the four players in turn: starting PyTorch takes longer than the rest.
    """
    lines = [f"torch_defence({store(kind, tmp_path)})" for kind in ("safetensors", "state_dict", "checkpoint", "pt2")]
    player = written(PLAYER.format(more=IN_TURN.format(players=", ".join(lines)), player="InTurn()"), Role.DEFENCE)
    pixels, labels = test_digits.pixels[:20], test_digits.labels[:20]
    network = DigitsCNN()
    network.load_state_dict(state_dict())
    expected = network(torch.from_numpy(pixels).float() / 255).argmax(1)
    assert (expected.numpy() == labels).mean() > 0.9
    for line in lines:
        assert player.classify(pixels) == expected.tolist(), line


def test_a_normalised_network_gets_normalised_pictures(test_digits, written) -> None:
    """`mean` and `std` are applied before the network, the gradient is that of the whole, and so is evaluation mode."""
    source = PLAYER.format(
        more="import torch\nassert not torch_model(DigitsCNN(), std=0.5).training\ntorch.manual_seed(0)",
        player="torch_defence(DigitsCNN(), mean=0.25, std=[0.5])",
    )
    player = written(source, Role.DEFENCE)
    torch.manual_seed(0)
    network = Normalised()
    pixels, labels = test_digits.pixels[:5], test_digits.labels[:5]
    x = (torch.from_numpy(pixels).float() / 255).requires_grad_()
    scores = network(x)
    nn.functional.cross_entropy(scores, torch.from_numpy(labels.astype(np.int64)), reduction="sum").backward()
    answer = player.ask(player.session.ask_classify(pixels))[0]
    assert list(answer.labels) == scores.argmax(1).tolist()
    np.testing.assert_allclose(answer.scores, scores.detach().numpy(), rtol=1e-4, atol=1e-5)
    given = player.ask(player.session.ask_gradient(pixels, labels.tolist()))[0].gradients
    np.testing.assert_allclose(given, x.grad.numpy(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("library", ATTACKS)
def test_an_attack_of_a_library_is_an_attack_in_one_line(library, written, test_digits, require) -> None:
    """With labels and without it keeps the budget, makes the network it attacks err, and repeats a batch's answer."""
    package = library.partition(",")[0]
    if importlib.util.find_spec(package) is None:
        require(package, INSTALL[package])
    more, player = (part.format(weights=str(SURROGATE)) for part in ATTACKS[library])
    player = written(PLAYER.format(more=more, player=player), Role.ATTACK)
    pixels, labels = test_digits.pixels[:20], test_digits.labels[:20]
    network = DigitsCNN()
    network.load_state_dict(load_file(SURROGATE))
    for told in (labels, None):
        made = player.perturb(pixels, told)
        assert EPSILON // 2 < np.abs(made.astype(int) - pixels).max() <= EPSILON
        answers = network(torch.from_numpy(made).float() / 255).argmax(1).numpy()
        assert np.mean(answers == labels) < 0.3
        np.testing.assert_array_equal(player.perturb(pixels, told), made)


WRONG = {
    "torch_defence('model.pt2', 'weights.pt')": "has its weights in it",
    "torch_defence(DigitsCNN(), std=0)": "std must be above 0",
    "torch_attack(DigitsCNN())": "DigitsCNN is no attack of foolbox, ART or torchattacks",
    "torch_attack(foolbox.attacks.LinfPGD)": "did you forget the brackets",
    "torch_attack(foolbox.attacks.LinfPGD())": "needs a model beside it",
    "torch_defence(DigitsCNN, 'whole.pt')": "got DigitsCNN; did you forget the brackets?",
    "torch_defence('whole.pt')": "for weights give the network first: Network(), 'whole.pt'",
    "torch_defence(DigitsCNN(), 'whole.pt')": "holds more than weights",
}
TRY_ALL = """
import sys, traceback
import foolbox
for call in {calls}:
    try:
        eval(call)
    except (TypeError, ValueError):
        traceback.print_exc()
    print("end of", call, file=sys.stderr)
"""


def test_what_cannot_be_played_is_said(written, tmp_path) -> None:
    """A wrong argument is an error whose last line says what would be right; it ends the player that does not catch it.

    One process makes all the mistakes, the last of them as its player: starting PyTorch takes longer than the rest.
    """
    store("whole", tmp_path)
    last = list(WRONG)[-1]
    player = written(PLAYER.format(more=TRY_ALL.format(calls=list(WRONG)), player=last), Role.DEFENCE, greet=False)
    assert player.process.wait(60) != 0
    log = player.log.read_text()
    for call, said in WRONG.items():
        before, _, log = log.partition(f"end of {call}\n")
        assert said in before.splitlines()[-1]
    assert WRONG[last] in log.splitlines()[-1]
