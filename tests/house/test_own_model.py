"""What docs/your-own-model.md says works, with pictures of CIFAR-10's shape."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from .conftest import NEEDS_DOCKER, blocks_of, shell_in

pytestmark = pytest.mark.slow
NOT_RUN, GOES_INTO = "not run by the tests: ", "goes into "


def write_pictures(path, count: int) -> None:
    """Writes pictures of ten classes, each with a brightness of its own."""
    labels = np.arange(count) % 10
    noise = np.random.default_rng(0).integers(0, 20, (count, 32, 32, 3))
    np.savez(path, images=(noise + 22 * labels[:, None, None, None]).astype(np.uint8), labels=labels)


@pytest.fixture(scope="module")
def made(document, commands, tmp_path_factory) -> Path:
    """The folder in which the lines for participants ran, in their order, with few pictures; nobody changes it."""
    folder = tmp_path_factory.mktemp("participant")
    shell, work = shell_in(folder, commands), folder / "work"
    write_pictures(work / "train.npz", 100)
    write_pictures(work / "eval.npz", 40)
    printed = ""
    for block in blocks_of(document("your-own-model.md").split("## For organizers")[0]):
        if block.mark.startswith(GOES_INTO):
            (work / block.mark.removeprefix(GOES_INTO)).write_text(block.text)
        elif block.kind == "sh" and not block.mark:
            printed += shell(block.text)
    assert printed.count("it would be received") == 2
    return work


@pytest.mark.timeout(900)
@pytest.mark.xdist_group("own model")
def test_the_page_is_played_from_a_network_to_a_bundle(document, made, shell, tmp_path) -> None:
    """Every line of both halves works in its order, with few pictures: both players pass the check, and are ranked.

    In the contest each defence has one sandbox, is asked nothing again, and plays no trial match when it is submitted:
    all that is tested with players that start in less time, and `check` has played the trial match. PGD does not play.
    """
    work = tmp_path / "work"
    shutil.copytree(made, work, dirs_exist_ok=True)
    ours = document("your-own-model.md").split("## For organizers")[1]
    for side in ("defence", "attack"):
        with (work / f"my_{side}" / "submission.yaml").open("a") as file:
            file.write(f"source: https://example.org/{side}\n")
    weights, changes, season = blocks_of(ours)
    shell(weights.text.replace("--epochs 3", "--epochs 1"))
    file, yaml = work / "cup" / "contest.yaml", YAML()
    contest, wanted = yaml.load(file), yaml.load(changes.text.replace("first: 500", "first: 20"))
    wanted["baselines"].remove({"folder": "images/attack_pgd"})
    wanted["rules"]["initial"]["weights"] = {"fgsm": 1}
    rules = {**contest["rules"], **wanted["rules"]}
    quick = {"isolation": "round", "replay": {"power": 0}, "trial_pictures": 0}
    yaml.dump({**contest, **wanted, "rules": rules, **quick}, file)
    printed = shell(season.text.replace("contest power cup", "contest power cup --rounds 20"))
    assert "integrity only" in printed
    assert {"my_defence", "my_attack"} <= set(re.findall(r"^ +1 +(\S+)", printed, re.MULTILINE))


def test_what_is_not_run_says_why(document) -> None:
    """Each marked block of the page goes into a file, or gives its reason."""
    marks = [block.mark for block in blocks_of(document("your-own-model.md")) if block.mark]
    reasons = [mark for mark in marks if not mark.startswith(GOES_INTO) and mark != NEEDS_DOCKER]
    assert all(mark.startswith(NOT_RUN) and len(mark) > len(NOT_RUN) + 20 for mark in reasons)


def test_the_packages_of_foolbox_are_those_of_our_attack(document, root) -> None:
    """The page's requirements.lock has what the organizers' attack with foolbox has beyond the same base."""
    ours = (root / "images" / "attack_cw_l2" / "requirements.lock").read_text("utf-8").splitlines()
    (shown,) = [each for each in blocks_of(document("your-own-model.md")) if each.mark.endswith("requirements.lock")]
    assert shown.text.splitlines() == [line for line in ours if not line.startswith("#")]


@pytest.mark.docker
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("own model")
def test_an_attack_of_a_library_passes_the_check_in_a_container(document, made, root, shell, require, tmp_path) -> None:
    """The attack of the page is built without a network, with the wheels beside it, and would be received."""
    work, wheels = tmp_path / "work", root / "build" / "images" / "attack_cw_l2" / "wheels"
    asked = subprocess.run(["docker", "image", "inspect", "sparring/base-torch:cpu"], capture_output=True, check=False)
    if asked.returncode or not wheels.is_dir():
        require("docker", "there is no sparring/base-torch, or its wheels were not kept: make images")
    shutil.copytree(made, work, dirs_exist_ok=True)
    shutil.copytree(wheels, work / "my_attack" / "wheels")
    blocks = blocks_of(document("your-own-model.md"))
    (lines,) = [block.text for block in blocks if block.mark == NEEDS_DOCKER]
    try:
        printed = shell("".join(line for line in lines.splitlines(keepends=True) if "my_attack" in line))
        assert "it would be received" in printed
    finally:
        words = ["docker", "image", "rm", "submission/attack-my-attack:cpu"]
        subprocess.run(words, capture_output=True, check=False)
