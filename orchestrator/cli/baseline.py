"""`sparring baseline`."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.application.baselines import training
from orchestrator.cli import console, output_paths
from orchestrator.cli.console import Json, out
from orchestrator.domain.samples import Samples
from orchestrator.domain.tasks import require_whole_step
from orchestrator.errors import UsageError

_DIGITS_SIDE = 8
_DEFAULT_EPSILON = 51.0
_LARGEST_SEED = 2**63 - 1
"""The largest seed that PyTorch accepts."""
_SPLITS = ("train", "test")
app = typer.Typer(no_args_is_help=True, help="Make the organizers' own classifiers.")


class RecipeName(StrEnum):
    """The training method of a network."""

    CLEAN = "clean"
    FGSM = "fgsm"
    SPATIAL = "spatial"


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """Options for the pictures to train on: the digits, or archives."""

    only: Annotated[list[str] | None, typer.Option(help="Train only on this class; may be repeated.")] = None
    side: Annotated[int, typer.Option(help="Height and width of the digits in pixels: 8 or 28.")] = _DIGITS_SIDE
    data: Annotated[
        Path | None, typer.Option("--data", help="Train on this archive of images and labels (npz), not on the digits.")
    ] = None
    test: Annotated[Path | None, typer.Option("--test", help="With --data: the archive to measure on.")] = None

    def load(self) -> tuple[Samples, Samples]:
        """Returns the pictures to train on, and those to measure on. Raises UsageError, Rejected."""
        if (self.data is None) != (self.test is None):
            raise UsageError("give --data and --test together: what a network is trained on says little about it")
        if self.data is None or self.test is None:
            train_part, test_part = (training.load_digits(split, self.only or (), self.side) for split in _SPLITS)
            return train_part, test_part
        if self.only or self.side != _DIGITS_SIDE:
            raise UsageError("--only and --side choose among the digits; leave them out with --data")
        return training.load_archive(self.data), training.load_archive(self.test)


@app.command("train", epilog="Example: sparring baseline train --recipe fgsm --epsilon 51 --out weights.safetensors")
@console.command
def train(
    out_file: Annotated[Path, typer.Option("--out", help="Where to write the weights (safetensors).", dir_okay=False)],
    recipe: Annotated[
        RecipeName, typer.Option(help="Plain, FGSM, or worst-of-10-spatial training.")
    ] = RecipeName.CLEAN,
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same file, bit for bit.", min=0, max=_LARGEST_SEED)
    ] = 0,
    epsilon: Annotated[
        float | None, typer.Option(help="Budget of the fgsm recipe in steps of 1/255; default: 51.", min=0.0)
    ] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the training pictures.", min=1)] = 30,
    pictures: PictureOptions = PictureOptions(),
    as_json: Json = False,
) -> None:
    """Train a classifier on the handwritten digits, or on your own pictures, and measure it on pictures it never saw.

    Archives are read as `dataset: {kind: npz}` reads them. Standard error gets a line for each epoch.
    """
    if not out_file.parent.is_dir():
        raise UsageError(f"{out_file.parent} is not a folder; make it first")
    output_paths.require_file_path(out_file, "--out")
    if recipe is not RecipeName.FGSM:
        console.refuse_ignored({"--epsilon": epsilon}, "it is for --recipe fgsm; add that, or leave it out")
    epsilon = _DEFAULT_EPSILON if epsilon is None else epsilon
    try:
        require_whole_step(Decimal(str(epsilon)))
    except ValueError as error:
        raise UsageError(f"--epsilon: {error}") from error
    train_part, test_part = pictures.load()
    architecture = training.architecture_for(train_part)
    training_recipe = training.TrainingRecipe(recipe.value, architecture, seed, epsilon, epochs)
    report = training.train_classifier(training_recipe, train_part, test_part, out_file, console.print_log_line)
    if as_json:
        console.print_json(report)
        return
    for key, value in report.items():
        out.print(f"{key:14} {value}", soft_wrap=True)
