"""Measures how far a network's answers differ on one device: the noise that replays must tolerate (rules A9, A10, X3).

    python bench/device_noise.py --data ../shared/data/cifar10 [--pictures 1000] [--device cuda] [--json]

A defence is the organizers' network with the weights of each reference model. It is asked about the test pictures, and
about the pictures that FGSM, BIM and PGD make from them with the same weights (eps 8/255). Each row asks the same
questions under other circumstances, in a fresh process, and compares with the first row's answers:

    other bits    the pictures for which a logit has other bits
    noise         the largest difference of a logit, divided by the picture's largest absolute logit
    decisions     the pictures that get another label
    margin        the largest margin among those: the difference of the two highest logits divided by the largest
                  absolute one; `replay` takes a disagreement of at most 0.0001 for noise

Then two processes make PGD's pictures from the same seed: `other pictures` is how many of these differ.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "images" / "_base" / "python"))

import gradient_attacks
import sparring_models

MODELS = ("cifar_resnet_clean", "cifar_resnet_fgsm_at")
EPSILON, SEED = 8, 2026


@dataclass(frozen=True, slots=True)
class Circumstances:
    """How the questions are asked, and the settings of the process that asks them."""

    name: str
    batch: int = 64
    shuffled: bool = False
    deterministic: bool = True
    device: str = ""
    """Empty for the measured device."""


ROWS = (
    Circumstances("64 pictures a question"),
    Circumstances("again, in another process"),
    Circumstances("in another order", shuffled=True),
    Circumstances("1 picture a question", batch=1),
    Circumstances("256 pictures a question", batch=256),
    Circumstances("PyTorch's own settings", deterministic=False),
    Circumstances("on the processor", device="cpu"),
)


def main() -> int:
    """Measures and prints; in the processes that it starts, answers an order."""
    asked = _arguments()
    if asked.answer:
        answer(json.loads(asked.answer))
        return 0
    with tempfile.TemporaryDirectory(prefix="sparring-bench-") as folder:
        measured = [measure(model, asked, Path(folder)) for model in MODELS]
    if asked.json:
        print(json.dumps(measured, indent=2))
        return 0
    for each in measured:
        print(f"{each['model']}, {each['questions']} pictures, {each['computing']}\n")
        print("| circumstances | other bits | noise | decisions | margin |\n| --- | --- | --- | --- | --- |")
        for row in each["rows"]:
            print("| {name} | {bits} | {noise:.1e} | {decisions} | {margin:.1e} |".format(**row))
        made = each["other_pictures"]
        print(f"\nPGD twice: {made['deterministic']} other pictures; with PyTorch's own settings {made['own']}\n")
    return 0


def measure(model: str, asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Returns one model's rows."""
    with np.load(asked.data / "eval1000.npz") as data:
        pixels, labels = data["images"][: asked.pictures].transpose(0, 3, 1, 2), data["labels"][: asked.pictures]
    common = {"weights": str(asked.data / "models" / f"{model}.safetensors"), "device": asked.device}
    questions = folder / "questions.npz"
    np.savez(questions, pixels=np.ascontiguousarray(pixels), labels=labels)

    def run(**more: Any) -> dict[str, NDArray[Any]]:
        out = folder / "answers.npz"
        order = json.dumps(common | {"questions": str(questions), "out": str(out)} | more)
        if status := subprocess.run([sys.executable, __file__, "--answer", order], check=False).returncode:
            sys.exit(status)
        with np.load(out) as made:
            return dict(made)

    attacks = [run(attack=name) for name in ("fgsm", "bim", "pgd", "pgd")]
    own = [run(attack="pgd", deterministic=False) for _ in range(2)]
    np.savez(questions, pixels=np.concatenate([pixels, *(made["pixels"] for made in attacks[:3])]))
    answers = [
        run(
            batch=row.batch,
            shuffled=row.shuffled,
            deterministic=row.deterministic,
            device=row.device or asked.device,
        )
        for row in ROWS
    ]
    first = answers[0]["logits"]
    return {
        "model": model,
        "computing": str(answers[0]["computing"]),
        "questions": len(first),
        "rows": [compare(row.name, first, given["logits"]) for row, given in zip(ROWS, answers, strict=True)],
        "other_pictures": {
            "deterministic": _different(attacks[2]["pixels"], attacks[3]["pixels"]),
            "own": _different(own[0]["pixels"], own[1]["pixels"]),
        },
    }


def compare(name: str, first: NDArray[np.float32], other: NDArray[np.float32]) -> dict[str, Any]:
    """Returns the row that compares answers [n, classes] with those under the first circumstances."""
    largest = np.abs(first).max(axis=1)
    ordered = np.sort(first, axis=1)
    changed = first.argmax(axis=1) != other.argmax(axis=1)
    margins = (ordered[:, -1] - ordered[:, -2]) / largest
    return {
        "name": name,
        "bits": _different(first, other),
        "noise": float((np.abs(first - other).max(axis=1) / largest).max()),
        "decisions": int(changed.sum()),
        "margin": float(margins[changed].max(initial=0)),
    }


def _different(one: NDArray[Any], other: NDArray[Any]) -> int:
    return int((one != other).reshape(len(one), -1).any(axis=1).sum())


def answer(order: dict[str, Any]) -> None:
    """Answers one order in this process, and writes logits or an attack's pictures to the order's file."""
    if order["device"] == "cpu":
        torch.cuda.is_available = lambda: False
    elif not torch.cuda.is_available():
        print("PyTorch finds no GPU here; --device cpu measures the processor", file=sys.stderr)
        sys.exit(3)
    with np.load(order["questions"]) as questions:
        pixels, labels = questions["pixels"], questions.get("labels")
    task = SimpleNamespace(shape=pixels.shape[1:], classes=tuple("0123456789"), threads=1)
    if order.get("deterministic", True):
        network = sparring_models.load_network(order["weights"], task)
    else:
        network = sparring_models.CifarNet(10)
        network.load_state_dict(load_file(order["weights"]))
        network = network.requires_grad_(requires_grad=False).eval().to(sparring_models.device())
    computing = torch.cuda.get_device_name() if torch.cuda.is_available() else "processor"
    made: dict[str, Any] = {"computing": f"PyTorch {torch.__version__} on {computing}"}
    if name := order.get("attack"):
        rng = {"rng": np.random.default_rng(SEED)} if name == "pgd" else {}
        made["pixels"] = getattr(gradient_attacks, name)(network, pixels, labels, EPSILON, **rng)
    else:
        made["logits"] = np.empty((len(pixels), 10), np.float32)
        for part in _parts(len(pixels), order["batch"], shuffled=order["shuffled"]):
            made["logits"][part] = sparring_models.logits(network, pixels[part])
    np.savez(order["out"], **made)


def _parts(count: int, batch: int, *, shuffled: bool) -> Iterator[NDArray[np.int64]]:
    numbers = np.random.default_rng(SEED).permutation(count) if shuffled else np.arange(count)
    for begin in range(0, count, batch):
        yield numbers[begin : begin + batch]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder with eval1000.npz and models/")
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if not asked.answer and not asked.data:
        parser.error("name the folder with the pictures and models: --data ../shared/data/cifar10")
    return asked


if __name__ == "__main__":
    sys.exit(main())
