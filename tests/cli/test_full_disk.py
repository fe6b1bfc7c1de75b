"""Commands whose place is full: an error of ours with its code, and no part of what they should have written."""

import resource
import signal
from contextlib import contextmanager

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
