"""Trains the organizers' classifiers in a separate process: the orchestrator itself never imports torch."""

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from orchestrator import plugins, resources
from orchestrator.application.baselines.program_output import read_lines
from orchestrator.domain.field_errors import first_field_error
from orchestrator.domain.samples import Samples
from orchestrator.errors import InfrastructureFault, UsageError
from orchestrator.files import write_whole

INSTALL_REMEDY = (
    "pip install 'sparring[demo]' --extra-index-url https://download.pytorch.org/whl/cpu "
    "(without that index it is the CUDA build, of 5 GB)"
)
"""Installs the packages that the baselines import when they train or play in processes of this machine."""
_NEEDS = ("safetensors", "torch")
_ARGUMENT_ERROR = 2
"""argparse's exit status for invalid arguments."""


@dataclass(frozen=True, slots=True)
class TrainingRecipe:
    """How to train one network. `epsilon` is in steps of 1/255, and used by the recipe `fgsm`."""

    name: str
    architecture: str
    seed: int
    epsilon: float
    epochs: int = 30


ARCHITECTURES = {(1, 8, 8): "digits_cnn", (1, 28, 28): "digits28_cnn", (3, 32, 32): "cifar_net"}
"""The network by the shape of one picture: channels, height, width."""


def architecture_for(samples: Samples) -> str:
    """Returns the name of the network for these pictures. Raises UsageError if there is none."""
    shape = samples.pixels.shape[1:]
    if shape not in ARCHITECTURES:
        known = ", ".join(_shape_text(each) for each in ARCHITECTURES)
        raise UsageError(f"there is no network for pictures of {_shape_text(shape)}; there are networks for {known}")
    return ARCHITECTURES[shape]


def load_archive(path: Path) -> Samples:
    """Returns the pictures of an archive, read like a `dataset: {kind: npz}`. Raises Rejected."""
    kind = plugins.load_plugin("datasets", "npz")
    samples: Samples = kind().load_samples(kind.options_type(path=path.name), path.parent)
    return samples


def _shape_text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def load_digits(split: str, only: Sequence[str] = (), side: int | None = None) -> Samples:
    """Returns the training or test part of scikit-learn's digits, only of the classes `only`, scaled to `side` pixels.

    Raises:
        UsageError: there is no such choice of classes, or no such size.
        Rejected: there is no such class.
    """
    kind = plugins.load_plugin("datasets", "digits")
    try:
        options = kind.options_type(split=split, only=list(only) or None, side=side)
    except ValidationError as error:
        raise UsageError(f"--{first_field_error(error, kind.options_type)}") from error
    samples: Samples = kind().load_samples(options, Path())
    return samples


def train_classifier(
    recipe: TrainingRecipe,
    train_samples: Samples,
    test_samples: Samples,
    out: Path,
    on_line: Callable[[str], None],
) -> dict[str, Any]:
    """Trains a network, writes its weights as safetensors to `out`, and returns the training program's report.

    `on_line` is called with each line that the program writes meanwhile: one for each epoch.

    Raises:
        UsageError: a package is missing, or the training program refused its arguments.
        InfrastructureFault: the training failed; the program's last line is in the message.
        StoreFault: `out` cannot be written.
    """
    if missing := [name for name in _NEEDS if importlib.util.find_spec(name) is None]:
        raise UsageError(f"training needs {', '.join(missing)}; {INSTALL_REMEDY}")
    program = resources.resource_path("images", "_base", "python", "sparring_training.py")
    with tempfile.TemporaryDirectory(prefix="sparring-train-") as folder:
        paths, weights = {}, Path(folder) / "weights.safetensors"
        for name, samples in (("data", train_samples), ("test", test_samples)):
            paths[name] = Path(folder) / f"{name}.npz"
            np.savez(paths[name], pixels=samples.pixels, labels=samples.labels)
        arguments = [
            *("--data", str(paths["data"]), "--test", str(paths["test"]), "--out", str(weights)),
            *("--architecture", recipe.architecture, "--recipe", recipe.name),
            *("--epsilon", str(recipe.epsilon), "--seed", str(recipe.seed), "--epochs", str(recipe.epochs)),
        ]
        status, printed, last = _run([sys.executable, str(program), *arguments], Path(folder) / "printed", on_line)
        if status == _ARGUMENT_ERROR:
            raise UsageError(last)
        if status:
            raise InfrastructureFault(f"training failed: {last}")
        write_whole(out, weights.read_bytes())
    report: dict[str, Any] = json.loads(printed)
    return report


def _run(command: list[str], printed: Path, on_line: Callable[[str], None]) -> tuple[int, str, str]:
    """Runs a program; returns its exit status, its standard output, and its last line on standard error.

    Standard output goes to the file `printed` meanwhile, so that the program never waits for a full pipe.
    """
    last = "no output"

    def note(line: str) -> None:
        nonlocal last
        last = line
        on_line(line)

    with (
        printed.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True, errors="replace") as program,
    ):
        read_lines(program, program.stderr, 500, note)
    return program.returncode, printed.read_text("utf-8"), last
