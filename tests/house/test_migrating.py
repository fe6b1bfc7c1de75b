"""What docs/migrating-from-nips-2017.md says works, line by line, and its Dockerfiles make images that play."""

import re
import shutil
import subprocess

import pytest

from .conftest import NEEDS_DOCKER, Block, blocks_of

pytestmark = pytest.mark.slow

NAME = "migrating-from-nips-2017.md"
BASE = "sparring/base:cpu"
TEST_BASE = "sparring-test/migrating-base:cpu"
OTHER_IMAGE = "sparring-test/migrating-other:cpu"
BUILT = ("submission/attack-noise-2017:cpu", "submission/defence-means-2017:cpu", "submission/attack-shell:cpu")


@pytest.fixture
def blocks(document) -> list[Block]:
    """The document's fenced blocks."""
    return blocks_of(document(NAME))


@pytest.fixture
def base(shell, root, tmp_path, require):
    """The base image with the adapter as it is now; what was built on it is removed afterwards."""
    asked = subprocess.run(["docker", "image", "inspect", BASE], capture_output=True, text=True, check=False)
    if asked.returncode:
        require("docker", f"{asked.stderr.strip()}; make images")
    helpers = root / "images" / "_base" / "python"
    shutil.copytree(helpers, tmp_path / "context" / "python", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "context" / "Dockerfile").write_text(f"FROM {BASE}\nCOPY python/ /opt/sparring/\n")
    shell(f"docker build --quiet --network none --tag {TEST_BASE} ../context")
    yield TEST_BASE
    subprocess.run(["docker", "image", "rm", *BUILT, OTHER_IMAGE, TEST_BASE], capture_output=True, check=False)


def shape(line: str) -> str:
    """Returns a line with its numbers taken away."""
    return " ".join(re.sub(r"\d+(\.\d+)?", "0", line).split())


def on_test_base(text: str) -> str:
    """Returns lines or a recipe that stand on the base image with the adapter as it is now."""
    return text.replace(BASE, TEST_BASE)


def test_every_block_is_known(blocks) -> None:
    """Commands are in blocks of shell, recipes in blocks of their own; all are run by one of the tests below."""
    assert {block.kind for block in blocks} == {"sh", "text", "dockerfile"}
    assert {block.mark for block in blocks if block.kind == "sh"} == {"", NEEDS_DOCKER}
    verbs = {
        " ".join(line.split()[1:3]) for block in blocks for line in block.text.splitlines() if "sparring sub" in line
    }
    assert {"submission import", "submission check", "submission try"} <= verbs
    assert len([block for block in blocks if block.kind == "dockerfile"]) == 2


@pytest.mark.timeout(600)
def test_an_old_submission_gets_through(blocks, shell, lightly) -> None:
    """Every line that needs no engine works in its order, and prints what is shown."""
    printed = ""
    for block in blocks:
        if block.kind == "sh" and not block.mark:
            printed += shell(lightly(block.text))
        elif block.kind == "text":
            said = {shape(line) for line in printed.splitlines()}
            assert [line for line in block.text.splitlines() if shape(line) not in said] == []
    assert printed.count("it would be received") == 2


@pytest.mark.docker
@pytest.mark.timeout(600)
@pytest.mark.soak
def test_an_old_submission_gets_through_with_docker(blocks, shell, base, tmp_path) -> None:
    """The lines that need an engine work too, on the base image as it will be after `make images`."""
    for block in (each for each in blocks if each.kind == "sh"):
        if block.mark == NEEDS_DOCKER:
            for recipe in (tmp_path / "work").glob("*_2017/Dockerfile"):
                recipe.write_text(on_test_base(recipe.read_text()))
            assert shell(block.text).count("it would be received") == 2
        elif "submission check" not in block.text:
            shell(block.text)


OTHERS = {
    "with Python": (
        "mv /opt/packages/* $(python3 -c 'import site; print(site.getsitepackages()[0])') && rm -rf /opt/sparring",
        'python -c "import numpy"',
    ),
    "without Python": (
        "rm -rf /opt/* /usr/bin/python3* /usr/lib/python3* /usr/local/bin/python* /usr/local/lib/*python*",
        "! command -v python python3",
    ),
}
"""Images that know nothing of this software: how one comes of the base image, and what a script finds in it."""


@pytest.mark.docker
@pytest.mark.timeout(600)
@pytest.mark.parametrize("other", OTHERS)
def test_the_adapter_is_added_to_another_image(blocks, shell, base, tmp_path, other) -> None:
    """Both recipes make an image that would be received: on one with Python and NumPy, on one without any Python."""
    (recipe,) = [block.text for block in blocks if block.kind == "dockerfile" and block.mark.endswith(other)]
    change, found = OTHERS[other]
    for name in ("bare", "work/shell"):
        (tmp_path / name).mkdir()
    (tmp_path / "bare" / "Dockerfile").write_text(f"FROM {BASE}\nUSER 0\nRUN {change}\nENV PYTHONPATH=\n")
    shell(f"docker build --quiet --network none --tag {OTHER_IMAGE} ../bare")
    folder = tmp_path / "work" / "shell"
    (folder / "metadata.json").write_text('{"type": "attack", "entry_point": "run.sh"}')
    (folder / "run.sh").write_text(f'#!/bin/sh\n{found} && cp "$1"/* "$2"/\n')
    (folder / "Dockerfile").write_text(on_test_base(recipe))
    shell(f"sparring submission import shell && sparring submission build shell --base {OTHER_IMAGE}")
    said = shell("sparring submission check submission/attack-shell:cpu --side attack --backend docker")
    assert "it would be received" in said
