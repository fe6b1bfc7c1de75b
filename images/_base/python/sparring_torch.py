"""Plays a PyTorch model as a defence, and an attack of a library as an attack, in a few lines.

    from sparring_torch import serve, torch_defence  # first: from here on print() writes to your log
    from network import Network

    serve(torch_defence(Network(), "weights.safetensors", mean=(0.49, 0.48, 0.45), std=(0.25, 0.24, 0.26)))

An attack of foolbox gets its model from `torch_attack`. The attacks of torchattacks and of ART have a model already,
which `torch_model` makes:

    serve(torch_attack(foolbox.attacks.LinfPGD(), Network(), "weights.safetensors", mean=..., std=...))
    serve(torch_attack(torchattacks.PGD(torch_model(Network(), "weights.safetensors", mean=..., std=...))))

Models take float32 pictures [n, channels, height, width] and return logits [n, classes]. `mean` and `std` normalise the
pictures, which are in [0, 1]: one number for each channel or one for all; leave them out if the model does this itself,
or needs none. Everything runs on the GPU if there is one.

It needs PyTorch, and safetensors for weights in that format. Add the library of your attack to your image.
"""

from __future__ import annotations

from sparring_player import Attack, Defence, Task, serve  # first: it moves the pipes

# isort: split
import os
import pickle
from collections.abc import Sequence
from pathlib import Path

# foolbox imports GitPython, which fails without a git program unless this variable says to be quiet.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import numpy as np
import torch
from sparring_models import be_deterministic, device, logits, pictures, slope
from torch import nn

_ATTACK_CLASSES = frozenset({"Attack", "EvasionAttack"})
"""The base classes of the attacks of torchattacks and of ART."""
__all__ = ["serve", "torch_attack", "torch_defence", "torch_model"]

PerChannel = float | Sequence[float] | None


def torch_model(
    model: nn.Module | str | Path,
    weights: str | Path | None = None,
    *,
    mean: PerChannel = None,
    std: PerChannel = None,
) -> nn.Module:
    """Returns a model for float32 pictures in [0, 1], with its weights, frozen, in evaluation mode, on the GPU if any.

    Args:
        model: the network, or a file that `torch.export.save` wrote (`.pt2`), which contains the weights too.
        weights: a file with a state dict: of safetensors (`.safetensors`), or of `torch.save`, also one beside other
            entries of a checkpoint and one of a model in `DataParallel`. It is read without executing code.
        mean: is subtracted from the pictures before the model sees them.
        std: the pictures are then divided by it.

    Raises:
        TypeError: a class or a function in place of a network.
        ValueError: `weights` beside an exported model or without a network, a file that contains more than weights, or
            a standard deviation that is not above 0.
        RuntimeError: the weights belong to another network.
    """
    if isinstance(model, nn.Module):
        if weights is not None:
            model.load_state_dict(_read_weights(Path(weights)))
        network = model.eval()
    elif not isinstance(model, str | Path):
        name = getattr(model, "__name__", type(model).__name__)
        raise TypeError(f"the model must be a network or a file, got {name}; did you forget the brackets?")
    elif weights is not None:
        raise ValueError(f"{model} has its weights in it; leave {weights} away")
    else:
        network = _read_exported(model)
    made = network if mean is None and std is None else _Normalised(network, mean, std)
    made.training = False  # only of the outermost module: an exported model has no eval()
    return made.requires_grad_(requires_grad=False).to(device())


def torch_defence(
    model: nn.Module | str | Path,
    weights: str | Path | None = None,
    *,
    mean: PerChannel = None,
    std: PerChannel = None,
) -> Defence:
    """Returns a defence that answers with the class of the model's largest logit; it gives scores and gradients too.

    The arguments and the errors are those of `torch_model`.
    """
    return _TorchDefence(torch_model(model, weights, mean=mean, std=std))


def torch_attack(
    attack: object,
    model: nn.Module | str | Path | None = None,
    weights: str | Path | None = None,
    *,
    mean: PerChannel = None,
    std: PerChannel = None,
) -> Attack:
    """Returns an attack that plays one of a library: of foolbox, ART or torchattacks.

    Its epsilon is set to the contest's budget, and its pictures are rounded and moved into that budget. Its random
    numbers are seeded from the batch. If the contest hides labels, the model's predictions take their place.

    Args:
        attack: the library's object. Those of ART and torchattacks have their model already.
        model: for foolbox, the model that is attacked; this and the other arguments as for `torch_model`.
        weights: its weights.
        mean: of its normalisation.
        std: of its normalisation.

    Raises:
        TypeError: an object of another library, a model that is not used, or no model for foolbox.
        ValueError: as `torch_model`.
        RuntimeError: as `torch_model`.
    """
    if isinstance(attack, type):
        raise TypeError(f"torch_attack needs an object, got the class {attack.__name__}; did you forget the brackets?")
    kind = type(attack).__mro__
    library = next(
        (name for name in ("foolbox", "art", "torchattacks") if any(_is_of(each, name) for each in kind)), ""
    )
    if not library:
        raise TypeError(f"{type(attack).__name__} is no attack of foolbox, ART or torchattacks")
    if (model is None) == (library == "foolbox"):
        raise TypeError(
            "an attack of foolbox needs a model beside it"
            if model is None
            else f"an attack of {library} has its model already: give it torch_model(...) there, and none here"
        )
    return {"foolbox": _FoolboxAttack, "art": _ArtAttack, "torchattacks": _TorchattacksAttack}[library](
        attack, None if model is None else torch_model(model, weights, mean=mean, std=std)
    )


class _Normalised(nn.Module):
    """A network behind its normalisation."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, network: nn.Module, mean: PerChannel, std: PerChannel) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(0.0 if mean is None else mean).float().view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(1.0 if std is None else std).float().view(-1, 1, 1))
        if not (self.std > 0).all():
            raise ValueError(f"std must be above 0, got {std}")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the network's logits for pictures in [0, 1]."""
        return self.network((x - self.mean) / self.std)


def _read_weights(path: Path) -> dict:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file  # noqa: PLC0415  not needed for other files

        return load_file(path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} holds more than weights; write them with torch.save(model.state_dict(), ...)"
        ) from error
    # A checkpoint has the weights beside other entries, such as the state of the optimizer and the epoch.
    parts = [part for part in found.values() if _is_state_dict(part)]
    if len(parts) == 1 and not _is_state_dict(found):
        found = parts[0]
    nn.modules.utils.consume_prefix_in_state_dict_if_present(found, "module.")
    return found


def _is_state_dict(value: object) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(each, torch.Tensor) for each in value.values())


def _read_exported(path: str | Path) -> nn.Module:
    if Path(path).suffix != ".pt2":
        raise ValueError(f"{path} is no exported model (.pt2); for weights give the network first: Network(), {path!r}")
    import torch.export.passes  # noqa: PLC0415  it takes seconds, and most players do not need it

    program = torch.export.load(path)
    return torch.export.passes.move_to_device_pass(program, str(device())).module()


def _is_of(kind: type, library: str) -> bool:
    return kind.__module__.partition(".")[0] == library


def _attacks_in(attack: object, library: str) -> list:
    """Returns an attack and the attacks of the same library in it, as AutoAttack has: each has an epsilon."""
    found = [attack]
    for attribute in vars(attack).values():
        for part in attribute if isinstance(attribute, list | tuple) else [attribute]:
            if _is_attack(part, library):
                found += _attacks_in(part, library)
    return found


def _is_attack(value: object, library: str) -> bool:
    return any(_is_of(kind, library) and kind.__name__ in _ATTACK_CLASSES for kind in type(value).__mro__)


class _TorchDefence(Defence):
    """A model's most likely class."""

    scores = True

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def load(self, task: Task) -> None:
        be_deterministic(task.threads)

    def classify(self, pixels: np.ndarray) -> tuple:
        values = logits(self.model, pixels)
        return values.argmax(axis=1), values

    def gradient(self, pixels: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return slope(self.model, pixels, labels)


class _LibraryAttack(Attack):
    """The base of the attacks of all libraries: sets epsilon, seeds random numbers, and rounds to 8 bits."""

    def __init__(self, attack: object, model: nn.Module | None) -> None:
        self.attack, self.model = attack, model
        self.name = type(attack).__name__

    def load(self, task: Task) -> None:
        be_deterministic(task.threads)
        torch.set_deterministic_debug_mode("warn")  # some layers' gradients have no deterministic algorithm on a GPU
        self.task, self.epsilon = task, task.epsilon / 255

    def perturb(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        seed = int(self.task.rng(pixels).integers(2**32))
        np.random.seed(seed)  # noqa: NPY002  the libraries draw from it
        torch.manual_seed(seed)
        return self.task.within(pixels, 255 * self.run(pixels, labels))

    def run(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        """Returns the library's adversarial examples of the pictures, in [0, 1]."""
        raise NotImplementedError


class _FoolboxAttack(_LibraryAttack):
    def load(self, task: Task) -> None:
        super().load(task)
        import foolbox  # noqa: PLC0415  installed, because the attack is of it

        self.criterion = foolbox.criteria.Misclassification
        self.wrapped = foolbox.PyTorchModel(self.model, bounds=(0, 1), device=device())

    def run(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        x = pictures(pixels)
        truth = self.criterion(_labels(self.model, x, labels))
        _, clipped, _ = self.attack(self.wrapped, x, truth, epsilons=self.epsilon)
        return clipped.cpu().numpy()


class _TorchattacksAttack(_LibraryAttack):
    def load(self, task: Task) -> None:
        super().load(task)
        for attack in _attacks_in(self.attack, "torchattacks"):
            if hasattr(attack, "eps"):
                attack.eps = self.epsilon

    def run(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        x = pictures(pixels)
        return self.attack(x, _labels(self.attack.model, x, labels)).detach().cpu().numpy()


class _ArtAttack(_LibraryAttack):
    def load(self, task: Task) -> None:
        super().load(task)
        for attack in _attacks_in(self.attack, "art"):
            if "eps" in attack.attack_params:
                attack.set_params(eps=self.epsilon)

    def run(self, pixels: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        return self.attack.generate(pixels.astype(np.float32) / 255, labels)


def _labels(model: nn.Module, x: torch.Tensor, labels: np.ndarray | None) -> torch.Tensor:
    if labels is not None:
        return torch.from_numpy(labels).to(device())
    with torch.no_grad():
        return model(x).argmax(1)
