"""images/build.sh stops with a remedy where something is missing. Real builds need an engine and minutes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "images" / "build.sh"


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


def test_without_base_image_and_debootstrap(build):
    """Where no base image can be had, it names both ways out."""
    done = build(docker='[ "$1" = version ]')
    assert done.returncode == 1
    assert "python:3.11-slim cannot be pulled, using sparring/debian-python:bookworm" in done.stdout
    assert "remedy: docker load one and name it in SPARRING_BASE_IMAGE, or install debootstrap" in done.stderr
