"""What is said of a program that cannot be started on the process backend."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.sandboxes.process import exec_wrapper

BOUNDS = (str(2**30), "100", str(2**20))


def started(folder: Path, *command: str, search: str = "/usr/bin:/bin") -> tuple[int, str]:
    """Returns with which status a command ends in a folder, and what it says."""
    words = [sys.executable, "-I", "-S", exec_wrapper.__file__, *BOUNDS, *command]
    done = subprocess.run(words, cwd=folder, env={"PATH": search}, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(
            b"#!/no/such/python -u\nprint()\n", "its interpreter '/no/such/python' is not there", id="missing"
        ),
        pytest.param(b"#! \t/no/such/python\n", "its interpreter '/no/such/python' is not there", id="after-blanks"),
        pytest.param(b"#!/bin/sh\r\nexit 0\r\n", r"its interpreter '/bin/sh\r' is not there", id="dos-line-ends"),
        pytest.param(b"#!./mine.exe\n", "its interpreter './mine.exe' is not there", id="relative"),
    ],
)
@pytest.mark.parametrize("program", ["./player", "player"], ids=["by-path", "by-name"])
def test_a_missing_interpreter_is_named(tmp_path, content, words, program) -> None:
    """The kernel says of the script that it is not there, which its author can see to be wrong."""
    (tmp_path / "player").write_bytes(content)
    (tmp_path / "player").chmod(0o755)
    code, said = started(tmp_path, program, search=str(tmp_path))
    assert (code, said) == (127, f"cannot start {program!r}: {words}\n")


def test_a_missing_program_is_named(tmp_path) -> None:
    """Where there is no such file, nothing is said of an interpreter; a folder of that name is no file."""
    assert started(tmp_path, "./player") == (127, "cannot start './player': No such file or directory\n")
    (tmp_path / "player").mkdir()
    assert started(tmp_path, "player", search=str(tmp_path))[0] in {126, 127}


def test_a_missing_loader_is_told(tmp_path) -> None:
    """A binary for another C library is there, and what loads it is not."""
    shell = Path("/bin/sh").resolve().read_bytes()
    loader = next(each for each in (b"/lib64/ld-linux-x86-64.so.2", b"/lib/ld-linux-aarch64.so.1") if each in shell)
    (tmp_path / "player").write_bytes(shell.replace(loader, b"/no/" + b"x" * (len(loader) - 4)))
    (tmp_path / "player").chmod(0o755)
    code, said = started(tmp_path, "./player")
    assert code == 127
    assert "the loader that it names is not there" in said
