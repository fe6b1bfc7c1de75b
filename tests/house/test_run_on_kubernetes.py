"""What the documents on clusters say works where it needs no cluster, and speaks of things that are there."""

import re
import shlex
import shutil
from itertools import pairwise

import pytest
import typer

from orchestrator.cli.app import app

from .conftest import Block, blocks_of
from .test_docs import rows, section, words

NAME, SITE = "run-on-kubernetes.md", "web-on-kubernetes.md"
NOT_RUN = "not run by the tests: "
KEYS = {
    "registry",
    "platform",
    "node_selector",
    "tolerations",
    "pull_secrets",
    "runtime_class",
    "priority_class",
    "max_jobs",
}


@pytest.fixture
def blocks(document) -> list[Block]:
    """The blocks of shell of both documents, and of what the one on seasons says about clusters."""
    season = section(document("seasons.md"), "## Rounds on a cluster")
    found = [block for text in (document(NAME), document(SITE), season) for block in blocks_of(text)]
    assert {each.kind for each in found} == {"sh"}
    return found


def lines(blocks: list[Block]) -> list[list[str]]:
    """Returns the words of every command, those behind `--` as a command of their own."""
    found = []
    for block in blocks:
        for line in block.text.replace("\\\n", " ").splitlines():
            taken = shlex.split(line)
            if "--" in taken:
                found.append(taken[taken.index("--") + 1 :])
            found.append(taken)
    return [["sparring", *line[3:]] if line[:3] == ["python3", "-m", "orchestrator"] else line for line in found]


@pytest.mark.slow
def test_what_needs_no_cluster_runs(blocks, shell, root, tmp_path, require) -> None:
    """In the root of a clone."""
    if shutil.which("kubectl") is None:
        require("kubectl", "kubectl is not installed")
    for folder in ("k8s", "examples", "images"):
        (tmp_path / "work" / folder).symlink_to(root / folder)
    printed = "".join(shell(block.text) for block in blocks if not block.mark)
    assert printed.count("kind: Deployment") == 1
    assert printed.count("kind: Job\n") > 5


def test_what_is_not_run_says_why(blocks) -> None:
    """A cluster, or a registry."""
    marks = [block.mark for block in blocks if block.mark]
    assert all(mark.startswith(NOT_RUN) and "needs a" in mark for mark in marks)
    assert len(marks) < len(blocks)


@pytest.mark.slow
def test_every_command_of_ours_is_there(blocks) -> None:
    """With its options."""
    spoken = [line for line in lines(blocks) if line[0] == "sparring"]
    assert {tuple(line[1:3]) for line in spoken} == {
        *[("cluster", "render"), ("cluster", "push"), ("cluster", "check"), ("cluster", "sweep")],
        *[("image", "build"), ("round", "run"), ("round", "status")],
    }
    for line in spoken:
        command = typer.main.get_command(app)
        for word in line[1:3]:
            command = command.commands[word]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in line if word.startswith("--")} <= known


def test_what_is_named_on_the_cluster_is_made(blocks, root) -> None:
    """Namespace, Deployment, container, secret and folders are those of the base, or of the overlay with a site."""
    files = [*(root / "k8s" / "base").glob("*.yaml"), *(root / "k8s" / "overlays" / "web").glob("*.yaml")]
    base = "".join(path.read_text("utf-8") for path in files)
    for line in lines(blocks):
        if line[0] != "kubectl":
            continue
        own = line[: line.index("--")] if "--" in line else line
        for option, value in pairwise(own):
            if option == "-k":
                assert (root / value / "kustomization.yaml").is_file()
            if option in {"-n", "-c"}:
                assert f"name: {value}\n" in base
        for word in line:
            if word.startswith("deploy/"):
                assert f"name: {word.removeprefix('deploy/')}\n" in base
    assert "until [ -e /round/data/ready ]" in base
    assert "secretName: sparring-registry" in base


def test_every_file_it_speaks_of_is_there(document, root) -> None:
    """Folders and files of k8s/."""
    named = set(re.findall(r"`(k8s/[\w./-]+)`", document(NAME) + document(SITE)))
    assert {"k8s/base", "k8s/components/runtimes", "k8s/overlays/kueue/queues.yaml"} <= named
    assert [name for name in named if not (root / name).exists()] == []


def test_the_document_stays_short(document) -> None:
    """Who sets up a cluster reads it whole."""
    assert len(document(NAME).split()) <= 4500


def test_every_wait_has_a_remedy(document) -> None:
    """The table has no empty cell, and speaks of the settings by which waits are mended."""
    table = rows(section(document(NAME), "## When something hangs"))
    assert len(table) > 12
    assert all(all(cell.strip() for cell in row) for row in table)
    assert {word for row in table for word in words(row[2])} >= KEYS
