"""`sparring baseline`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.application.baselines import training
from orchestrator.cli import console, output_paths
from orchestrator.cli.console import Json, out
from orchestrator.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="Make the organizers' own classifiers.")


class RecipeName(StrEnum):
    """How the network is trained."""

    CLEAN = "clean"
    FGSM = "fgsm"
    SPATIAL = "spatial"


@app.command("train", epilog="Example: sparring baseline train --recipe fgsm --epsilon 51 --out weights.safetensors")
@console.command
def train(
    out_file: Annotated[Path, typer.Option("--out", help="Where to write the weights (safetensors).", dir_okay=False)],
    recipe: Annotated[
        RecipeName, typer.Option(help="Plain, FGSM, or worst-of-10-spatial training.")
    ] = RecipeName.CLEAN,
    seed: Annotated[int, typer.Option(help="The same seed gives the same file, bit for bit.", min=0)] = 0,
    epsilon: Annotated[float, typer.Option(help="Budget of the fgsm recipe in steps of 1/255.", min=0.0)] = 51.0,
    only: Annotated[list[str] | None, typer.Option(help="Train on this class only; repeat it for more.")] = None,
    side: Annotated[int, typer.Option(help="Enlarge the pictures to so many pixels: 8 or 28.")] = 8,
    epochs: Annotated[int, typer.Option(help="Passes over the training pictures.", min=1)] = 30,
    as_json: Json = False,
) -> None:
    """Train a classifier on the handwritten digits' training part and measure it on the test part."""
    if side not in training.ARCHITECTURES:
        raise UsageError(f"--side {side}: there are networks for {', '.join(map(str, training.ARCHITECTURES))}")
    if not out_file.parent.is_dir():
        raise UsageError(f"{out_file.parent} is not a folder; make it first")
    output_paths.require_file_path(out_file, "--out")
    training_recipe = training.TrainingRecipe(recipe.value, training.ARCHITECTURES[side], seed, epsilon, epochs)
    train_part, test_part = (training.load_digits(split, only or (), side) for split in ("train", "test"))
    report = training.train_classifier(training_recipe, train_part, test_part, out_file)
    if as_json:
        console.print_json(report)
        return
    for key, value in report.items():
        out.print(f"{key:14} {value}", soft_wrap=True)
