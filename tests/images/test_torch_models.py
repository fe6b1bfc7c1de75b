"""`sparring_torch`: a participant's model as a defence, and the attacks of three libraries as attacks."""

import importlib.util

import numpy as np
import pytest

from orchestrator.protocol.messages import Role

from .conftest import EPSILON, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("PyTorch")]  # one worker imports it, which takes seconds
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch.export
def test_a_stored_network_is_a_defence_in_one_line(written, test_digits, tmp_path) -> None:
    """Weights of safetensors, of torch.save, from a checkpoint of DataParallel and exported give the same labels.

    One process is the four players in turn: starting PyTorch takes longer than the rest.
    """
    from . import torch_networks  # noqa: PLC0415  it brings PyTorch

    kinds = ("safetensors", "state_dict", "checkpoint", "pt2")
    lines = [f"torch_defence({torch_networks.store(kind, tmp_path)})" for kind in kinds]
    player = written(PLAYER.format(more=IN_TURN.format(players=", ".join(lines)), player="InTurn()"), Role.DEFENCE)
    pixels, labels = test_digits.pixels[:20], test_digits.labels[:20]
    expected = torch_networks.answers(pixels, torch_networks.SHIPPED)
    assert np.mean(expected == labels) > 0.9
    for line in lines:
        assert player.classify(pixels) == expected.tolist(), line


def test_a_normalised_network_gets_normalised_pictures(test_digits, written) -> None:
    """`mean` and `std` are applied before the network, the gradient is that of the whole, and so is evaluation mode."""
    from . import torch_networks  # noqa: PLC0415  it brings PyTorch

    source = PLAYER.format(
        more="import torch\nassert not torch_model(DigitsCNN(), std=0.5).training\ntorch.manual_seed(0)",
        player="torch_defence(DigitsCNN(), mean=0.25, std=[0.5])",
    )
    player = written(source, Role.DEFENCE)
    pixels, labels = test_digits.pixels[:5], test_digits.labels[:5]
    scores, gradients = torch_networks.scores_and_gradients(pixels, labels, seed=0)
    answer = player.ask(player.session.ask_classify(pixels))[0]
    assert list(answer.labels) == scores.argmax(1).tolist()
    np.testing.assert_allclose(answer.scores, scores, rtol=1e-4, atol=1e-5)
    given = player.ask(player.session.ask_gradient(pixels, labels.tolist()))[0].gradients
    np.testing.assert_allclose(given, gradients, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("library", ATTACKS)
def test_an_attack_of_a_library_is_an_attack_in_one_line(library, written, test_digits, require) -> None:
    """With labels and without it keeps the budget, makes the network it attacks err, and repeats a batch's answer."""
    from . import torch_networks  # noqa: PLC0415  it brings PyTorch

    package = library.partition(",")[0]
    if importlib.util.find_spec(package) is None:
        require(package, INSTALL[package])
    more, player = (part.format(weights=str(SURROGATE)) for part in ATTACKS[library])
    player = written(PLAYER.format(more=more, player=player), Role.ATTACK)
    pixels, labels = test_digits.pixels[:20], test_digits.labels[:20]
    for told in (labels, None):
        made = player.perturb(pixels, told)
        assert EPSILON // 2 < np.abs(made.astype(int) - pixels).max() <= EPSILON
        assert np.mean(torch_networks.answers(made, SURROGATE) == labels) < 0.3
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
    from . import torch_networks  # noqa: PLC0415  it brings PyTorch

    torch_networks.store("whole", tmp_path)
    last = list(WRONG)[-1]
    player = written(PLAYER.format(more=TRY_ALL.format(calls=list(WRONG)), player=last), Role.DEFENCE, greet=False)
    assert player.process.wait(60) != 0
    log = player.log.read_text()
    for call, said in WRONG.items():
        before, _, log = log.partition(f"end of {call}\n")
        assert said in before.splitlines()[-1]
    assert WRONG[last] in log.splitlines()[-1]
