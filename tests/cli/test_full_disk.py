"""Commands whose place is full: an error of ours with its code, and no part of what they should have written."""

import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.application.grading import human_grading
from orchestrator.cli import submission_check
from orchestrator.cli.app import app
from orchestrator.errors import StoreFault
from orchestrator.files import write_whole


@contextmanager
def full_disk():
    """Lets no file grow beyond two bytes, as on a disk without space."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_transcript_is_written_whole_or_not_at_all(tmp_path) -> None:
    """So is the page of a trial, by the same function."""
    path = tmp_path / "saved.json"
    with full_disk(), pytest.raises(StoreFault, match=r"saved\.json cannot be written"):
        submission_check._write(path, "{}" * 10)
    assert list(tmp_path.iterdir()) == []


def test_pages_of_raters_are_written_all_or_none(tmp_path) -> None:
    """A folder that was left would keep the next export from it."""
    with full_disk(), pytest.raises(StoreFault), human_grading._made_folder(tmp_path / "pages"):
        write_whole(tmp_path / "pages" / "r01.html", b"a page")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("contest init {}/cup", 3),
        ("copy images/attack_noop --out {}", 2),
        ("submission init attack new --out {}/new", 2),
    ],
)
def test_a_full_disk_leaves_nothing_behind(words, code, tmp_path) -> None:
    """The message is one line, and the same command works once there is space."""
    arguments = words.replace("{}", str(tmp_path)).split()
    with full_disk():
        done = CliRunner().invoke(app, arguments)
    assert done.exit_code == code, (done.output, done.exception)
    assert "cannot be" in done.stderr
    assert len(done.stderr) < 400
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert CliRunner().invoke(app, arguments).exit_code == 0


@pytest.mark.parametrize("words", [["explain", "usage"], ["explain", "usage", "--json"], ["explain", "--json"]])
def test_output_that_does_not_fit_is_one_line_on_stderr(words) -> None:
    """A short or long document for a file on a full disk is an error of the machine, without a traceback."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "orchestrator", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3, done.stderr
    assert done.stderr.splitlines()[0] == (
        "infrastructure: the output cannot be written: No space left on device; make space, or write it elsewhere"
    )
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize("words", [["explain"], ["explain", "--json"], ["explain", "usage", "--json"]])
def test_a_reader_that_ends_first_is_no_failed_check(words) -> None:
    """Where `head` has read enough, the command ends quietly, as programs do that a closed pipe ends."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *words], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_command_without_standard_output_is_fine() -> None:
    """`>&-` closes the output; what would be printed is lost, and the exit code says how it went."""
    words = [sys.executable, "-m", "orchestrator", "explain", "usage", "--json"]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *words], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
