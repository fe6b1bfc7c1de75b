"""What the documents for participants say works, in its order, from an empty folder."""

import re
import shlex
import shutil
import subprocess

import pytest
import typer

from orchestrator.cli.app import app

from .conftest import NEEDS_DOCKER, Block, blocks_of

pytestmark = pytest.mark.slow

DOCUMENTS = {
    "submit-an-attack.md": (),
    "submit-a-defence.md": (),
    "the-image-protocol.md": ("gcc", "make", "node"),
}
"""Each with the programs that it needs beyond Python."""
NOT_RUN = "not run by the tests: "
GOES_INTO = "goes into "
BASE = "sparring/base:cpu"
EACH = pytest.mark.parametrize("name", DOCUMENTS)


@pytest.fixture
def blocks(document, name) -> list[Block]:
    """The document's fenced blocks."""
    return blocks_of(document(name))


def known(group=None, path: tuple[str, ...] = ()) -> set[str]:
    """Returns every command there is, as it is typed after `sparring`."""
    found = set()
    for name, command in (group or typer.main.get_command(app)).commands.items():
        here = (*path, name)
        found |= known(command, here) if hasattr(command, "commands") else {" ".join(here)}
    return found


def spoken_of(line: str) -> str:
    """Returns the command of a line of shell, or nothing where it is none of ours."""
    words = shlex.split(line)
    if words[:1] != ["sparring"] or words[1].startswith("-"):
        return ""
    return " ".join(words[1:3]) if words[1] in {"submission", "contest", "team", "round", "image"} else words[1]


def shape(line: str) -> str:
    """Returns a line with its numbers taken away."""
    return " ".join(re.sub(r"\d+(\.\d+)?", "0", line).split())


def test_nothing_is_left_out_in_silence(document) -> None:
    """Every block of shell is run, needs Docker, or says why not, and every command in it is there."""
    there = known()
    spoken, marks = set(), []
    for name in DOCUMENTS:
        for each in blocks_of(document(name)):
            assert each.kind in {"sh", "text", "python", "yaml", "dockerfile"}, each.text
            if each.kind == "sh":
                spoken |= {spoken_of(line) for line in each.text.splitlines()} - {""}
                marks += [each.mark] if each.mark else []
    assert spoken <= there
    verbs = {f"submission {verb}" for verb in ("init", "check", "try", "debug", "build", "pack")}
    assert verbs | {"submit"} <= spoken
    reasons = [mark for mark in marks if mark != NEEDS_DOCKER]
    assert all(mark.startswith(NOT_RUN) and len(mark) > len(NOT_RUN) + 20 for mark in reasons)
    assert len(reasons) == 4


def test_a_forked_command_is_like_a_started_one(shell) -> None:
    """The second command of a shell, a fork, has its folder, umask and streams as the first, and its exit code."""
    lines = "mkdir {0}; cd {0}; umask 027; sparring submission init attack mine; stat -c '%n %a' mine/*"
    started, forked = (shell(lines.format(name)) for name in ("started", "forked"))
    assert "mine/player.py 640" in started
    assert forked == started
    said = shell("cd forked; sparring submission init attack mine 2>&1 || echo $?").splitlines()
    assert (said[0].partition(":")[0], said[-1]) == ("usage", "2")


@EACH
@pytest.mark.timeout(600)
def test_a_new_participant_gets_through(name, blocks, shell, lightly, require, tmp_path) -> None:
    """Every line that needs no engine works in its order, with the player of the document, and prints what is shown."""
    for program in DOCUMENTS[name]:
        if shutil.which(program) is None:
            require(program, f"{program} is not on this machine")
    printed = ""
    for block in blocks:
        if block.mark.startswith(GOES_INTO):
            target = tmp_path / "work" / block.mark.removeprefix(GOES_INTO)
            assert target.is_file(), "the document changes what is there"
            target.write_text(block.text)
        elif block.kind == "sh" and not block.mark:
            printed += shell(lightly(block.text))
        elif block.kind == "text":
            shown = {shape(line) for line in printed.splitlines()}
            assert [line for line in block.text.splitlines() if line != "..." and shape(line) not in shown] == []
    assert printed.count("it would be received") == printed.count("expected score") > 0


@EACH
def test_the_code_that_is_shown_is_ours(name, blocks, root) -> None:
    """What the documents show of manifests and recipes is what the templates say."""
    for block in blocks:
        if block.kind == "dockerfile":
            text = (root / "images" / "templates" / "c" / "Dockerfile").read_text()
            assert block.text == re.sub(r"^#.*\n", "", text)
        elif block.kind == "yaml":
            text = (root / "images" / "templates" / "c" / "defence" / "submission.yaml").read_text()
            assert set(block.text.splitlines()) - {"name: tortoise", "image: submission/defence-tortoise"} <= {
                *text.replace("$licence", "Apache-2.0").splitlines()
            }


@pytest.mark.parametrize("name", ["submit-an-attack.md", pytest.param("submit-a-defence.md", marks=pytest.mark.soak)])
@pytest.mark.docker
@pytest.mark.timeout(600)
def test_a_new_participant_gets_through_with_docker(name, blocks, shell, require, tmp_path) -> None:
    """The lines that need an engine work too, where there is one with the base image; both documents have the same."""
    chosen = [block for block in blocks if block.mark == NEEDS_DOCKER]
    asked = subprocess.run(["docker", "image", "inspect", BASE], capture_output=True, text=True, check=False)
    if asked.returncode:
        require("docker", f"{asked.stderr.strip()}; make images")
    begun = next(block for block in blocks if block.kind == "sh" and "submission init" in block.text)
    shell(begun.text)
    for block in blocks:
        if block.mark.startswith(GOES_INTO):
            (tmp_path / "work" / block.mark.removeprefix(GOES_INTO)).write_text(block.text)
    side = name.removesuffix(".md").rpartition("-")[2]
    try:
        assert "it would be received" in shell("\n".join(block.text for block in chosen))
    finally:
        words = ["docker", "image", "rm", f"submission/{side}-my-{side}:cpu"]
        subprocess.run(words, capture_output=True, check=False)
