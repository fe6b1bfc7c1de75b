"""images/build.sh stops with a remedy where something is missing. Real builds need an engine and minutes."""

import os
import shutil
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.intake.manifest import with_tag
from orchestrator.intake.source_tree import scan_folder

SCRIPT = Path(__file__).parents[2] / "images" / "build.sh"
DOCKER = """case $1 in
  run) echo 3.11 x86_64 ;;
  build) cat >"$LOG.tar"; echo "$*" >>"$LOG" ;;
esac
"""
"""An engine that has every image, and writes down what it is to build."""
PYTHON = f"""case "$1 $2 $3" in
  "-m pip download")
    echo "$PIP_EXTRA_INDEX_URL" >>"$LOG.indexes"
    while [ "$1" != --dest ]; do shift; done
    : >"$2/torch-2+cpu-any.whl" ;;
  "-m pip --version") ;;
  *) exec {sys.executable} "$@" ;;
esac
"""
"""A Python whose pip downloads nothing."""


@pytest.fixture
def build(tmp_path):
    """Runs the script where the only programs are the usual ones and those of `programs`."""

    def run(*words: str, **programs: str) -> subprocess.CompletedProcess[str]:
        for name in ("bash", "dirname", "id", "sed", "head", "cat", "sha256sum", "grep"):
            found = next(Path(folder) / name for folder in os.get_exec_path() if (Path(folder) / name).exists())
            (tmp_path / name).symlink_to(found)
        for name, text in programs.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
        return subprocess.run(
            ["bash", str(SCRIPT), *words],
            env={"PATH": str(tmp_path), "PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_without_the_docker_program(build):
    """It says what to install."""
    done = build()
    assert done.returncode == 1
    assert "the docker program is not installed\n  remedy: install Docker's command line" in done.stderr


def test_without_an_engine(build):
    """It says that no engine answers and how to reach one."""
    done = build(docker="exit 1")
    assert done.returncode == 1
    assert "no Docker engine answers\n  remedy: start it, or point DOCKER_HOST at one" in done.stderr


@pytest.mark.slow
def test_without_base_image_and_debootstrap(build):
    """Where no base image can be had, it names both ways out."""
    done = build(docker='[ "$1" = version ]')
    assert done.returncode == 1
    assert "python:3.11-slim cannot be pulled, using sparring/debian-python:bookworm" in done.stdout
    assert "remedy: docker load one and name it in SPARRING_BASE_IMAGE, or install debootstrap" in done.stderr


@pytest.fixture
def submission(tmp_path) -> Callable[..., Path]:
    """Returns a function that makes a submission's folder, whose manifest has these lines."""

    def submission(*lines: str) -> Path:
        folder = tmp_path / "entry"
        folder.mkdir(exist_ok=True)
        manifest = ["sparring: 1", "name: entry", "side: attack", "command: [python, player.py]", *lines]
        (folder / "submission.yaml").write_text("\n".join(manifest))
        (folder / "Dockerfile").write_text("FROM sparring/base:cpu\n")
        return folder

    return submission


@pytest.fixture
def told(tmp_path) -> Callable[..., tuple[subprocess.CompletedProcess[str], list[str]]]:
    """Returns a function that runs a copy of the script, and gives what its engine was told to build last."""
    (tmp_path / "copy" / "images").mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path / "copy" / "images")
    shutil.copytree(SCRIPT.parent / "_base", tmp_path / "copy" / "images" / "_base")
    shutil.copytree(SCRIPT.parents[1] / "tools", tmp_path / "copy" / "tools")
    for name, text in {"docker": DOCKER, "python": PYTHON}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}")
        (tmp_path / name).chmod(0o755)

    def told(
        *words: object, python: str = "python", **settings: str
    ) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        log = tmp_path / "log"
        log.write_text("")
        done = subprocess.run(
            ["bash", "copy/images/build.sh", *map(str, words)],
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "PYTHON": str(tmp_path / python),
                "LOG": str(log),
                "SPARRING_BUSYBOX": "/bin/sh",
                **settings,
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done, log.read_text().splitlines()[-1].split() if log.read_text() else []

    return told


def test_wheels_are_those_of_the_base_images_python(told) -> None:
    """Whatever variables the environment has: the base image says its version and its machine."""
    done, _ = told("images/_base", version="2.7", machine="sparc")
    assert "for Python 3.11 on x86_64" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "image"),
    [
        ("image:   'team/x'   # ours", "team/x"),
        ('image: "registry.example.org/team/x:1"', "registry.example.org/team/x:1"),
    ],
)
def test_the_tag_is_what_admission_looks_up(told, submission, line, image) -> None:
    """A tag that is there stays, one that is not is the flavour; the image says which files it was built from."""
    folder = submission(line, "gpu: true # or not")
    for flavour, options in (("cpu", ()), ("cuda", ("--cuda",))):
        done, words = told(*options, folder)
        assert done.returncode == 0, done.stderr
        assert words[words.index("-t") + 1] == with_tag(image, flavour)
        assert words[words.index("--label") + 1] == f"sparring.source={scan_folder(folder).digest}"


@pytest.mark.slow
def test_what_needs_no_gpu_is_not_built_with_cuda(told, submission) -> None:
    """With --cuda the bases are built, and of submissions those that say `gpu: true`."""
    done, words = told("--cuda", submission("image: team/x", "description: 'gpu: true'"))
    assert done.returncode == 0, done.stderr
    assert "sparring/base-torch:cuda" in words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "what"), [((), "has no `image:`"), (("image: [x]",), "image"), (("gpu: : true",), "submission.yaml")]
)
def test_a_manifest_that_cannot_be_read_ends_it(told, submission, lines, what) -> None:
    """The message is that of every command, and nothing is built under a name that nobody asked for."""
    done, words = told(submission(*lines))
    assert done.returncode == 1
    assert what in done.stderr
    assert "entry cannot be read" in done.stderr
    assert "sparring/base-torch:cpu" in words


def test_a_python_that_lacks_this_package_is_named(told, submission, tmp_path) -> None:
    """It says which Python it was, and how to get another."""
    (tmp_path / "bare").write_text("#!/bin/sh\n" + PYTHON.replace(sys.executable, f"{sys.executable} -I -S"))
    (tmp_path / "bare").chmod(0o755)
    done, _ = told(submission("image: team/x"), python="bare")
    assert done.returncode == 1
    assert "cannot read manifests: No module named" in done.stderr
    assert "`sparring image build`, or set PYTHON" in done.stderr


def test_an_installed_package_builds_the_same(told, tmp_path) -> None:
    """Without a clone, bases and sparring/runner are built from the package, which the runner has without `_share`."""
    package = tmp_path / "copy"
    (tmp_path / "lib" / "orchestrator").mkdir(parents=True)
    (tmp_path / "lib" / "orchestrator" / "__init__.py").touch()
    shutil.copytree(SCRIPT.parent / "runner", package / "images" / "runner")
    package.rename(tmp_path / "lib" / "orchestrator" / "_share")
    package.symlink_to(tmp_path / "lib" / "orchestrator" / "_share")
    done, words = told("images/_base")
    assert done.returncode == 0, done.stderr
    assert words[words.index("-t") + 1] == "sparring/base-torch:cpu"
    done, words = told("images/runner")
    assert done.returncode == 0, done.stderr
    assert words[words.index("-t") + 1] == "sparring/runner:cpu"
    with tarfile.open(tmp_path / "log.tar") as sent:
        names = set(sent.getnames())
    assert {"./Dockerfile", "orchestrator/__init__.py", "sh"} <= names
    assert not [name for name in names if name.startswith("orchestrator/_share")]


@pytest.mark.slow
def test_an_extra_index_that_does_not_answer_is_left_out(told, submission, tmp_path) -> None:
    """It is looked for once for all images; pip would wait for it, wheel by wheel."""
    (submission("image: team/x") / "requirements.lock").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        silent = f"http://127.0.0.1:{taken.getsockname()[1]}/simple"
        done, _ = told(tmp_path / "entry", PIP_EXTRA_INDEX_URL=f"{silent} /other/simple")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"the index {silent} cannot be reached; packages come from the other indexes\n") == 1
    assert (tmp_path / "log.indexes").read_text() == "/other/simple\n" * 2
