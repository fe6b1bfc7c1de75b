"""Who gets FIFOs: what is remembered of the probe, where the shell lies, and what a killed orchestrator leaves."""

import io
import os
import stat
import tarfile
import tempfile
from dataclasses import replace

import pytest

from orchestrator.domain.policy import Runtime
from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.base import Image
from orchestrator.sandboxes.docker import pipe_folders, player_fifos
from orchestrator.sandboxes.docker.pipe_folders import FifosRefusedError, PipeFolders
from orchestrator.sandboxes.linux.process_tree import ProcessTag
from orchestrator.sandboxes.linux.sandbox_owner import Owner

RUNNER = Image("sha256:" + "ab" * 32, "sparring/runner:cpu")


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Temporary folders are made here."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_each_runtime_is_tried_once():
    """A refusal is remembered with its reason, and so is success."""
    folders, asked = PipeFolders(), []

    def find_out(runtime: Runtime) -> None:
        asked.append(runtime)
        if runtime is Runtime.RUNSC:
            raise FifosRefusedError("it has no host-fifo")

    for _ in range(2):
        assert folders.refusal(Runtime.RUNC, find_out) == ""
        assert folders.refusal(Runtime.RUNSC, find_out) == "it has no host-fifo"
    assert asked == [Runtime.RUNC, Runtime.RUNSC]


def test_an_engine_that_fails_has_refused_nothing():
    """Its failure is the caller's to hear, and the next start asks again."""
    folders, failures = PipeFolders(), [SandboxLost("busy")]

    def find_out(_: Runtime) -> None:
        if failures:
            raise failures.pop()

    with pytest.raises(SandboxLost, match="busy"):
        folders.refusal(Runtime.RUNC, find_out)
    assert folders.refusal(Runtime.RUNC, find_out) == ""


def test_the_shell_can_be_run_and_not_read():
    """Nobody but us gets into its folder, and a player, who gets the file alone, may only run it."""
    folders = PipeFolders()
    folders.install(b"#!shell")
    fifos = folders.make()
    assert stat.S_IMODE(fifos.shell.stat().st_mode) == 0o111
    assert stat.S_IMODE(fifos.shell.parent.stat().st_mode) == 0o700
    assert dict(fifos.mounts) == {"/io": str(fifos.folder), "/io/sh": str(fifos.shell)}
    assert fifos.folder.parent == fifos.shell.parent
    folders.install(b"another")  # for another runtime, while containers run the first
    assert folders.make().folder != fifos.folder


def test_a_folder_that_was_taken_away_is_made_again():
    """What cleans temporary folders does not keep players from starting."""
    folders, asked = PipeFolders(), []

    def find_out(runtime: Runtime) -> None:
        asked.append(runtime)
        folders.install(b"#!shell")

    assert folders.refusal(Runtime.RUNC, find_out) == ""
    gone = folders.make().folder.parent
    for path in sorted(gone.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    gone.rmdir()
    assert folders.refusal(Runtime.RUNC, find_out) == ""
    assert folders.make().folder.exists()
    assert len(asked) == 2


def test_what_a_killed_orchestrator_left_is_removed(temporary):
    """A folder whose owner is dead goes with the next sweep; a live one's and a stranger's stay."""
    folders = PipeFolders()
    folders.install(b"#!shell")
    kept = folders.make().folder.parent
    here = Owner.current_process()
    dead, strange = (
        temporary / f"{player_fifos.PREFIX}{ProcessTag.create(owner, '').text}"
        for owner in (
            replace(here, start_time=here.start_time + 1),
            replace(here, pid_namespace=here.pid_namespace + 1),
        )
    )
    for folder in (dead, strange):
        folder.mkdir()
    os.mkfifo(dead / "in")
    assert player_fifos.remove_dead_folders(here) == 1
    assert set(temporary.iterdir()) == {kept, strange}


class Engine:
    """An engine with one file in its runner's image."""

    def __init__(self, archive: bytes) -> None:
        self.archive, self.removed = archive, []

    def image(self, _reference):
        """Has no image of that name."""

    def create(self, options, _name):
        """Makes a container that bears the labels."""
        assert options["Labels"] == {"a": "b"}
        return "c"

    def read_file_archive(self, _container, path):
        """Yields the archive, whatever was asked for."""
        assert path == "/opt/runner/sh"
        for start in range(0, len(self.archive), 1000):
            yield self.archive[start : start + 1000]

    def remove(self, container):
        """Notes it."""
        self.removed.append(container)


def archive_of(kind: bytes, content: bytes = b"") -> bytes:
    """Returns a tar of one entry."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        entry = tarfile.TarInfo("sh")
        entry.type, entry.size, entry.linkname = kind, len(content), "elsewhere" if kind == tarfile.SYMTYPE else ""
        tar.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def test_the_shell_comes_from_the_runners_image():
    """It is read from a container that is never started, and that is gone afterwards."""
    engine = Engine(archive_of(tarfile.REGTYPE, b"program" * 500))
    assert pipe_folders.read_shell(engine, RUNNER, {"a": "b"}) == b"program" * 500
    assert engine.removed == ["c"]


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (archive_of(tarfile.SYMTYPE), "is not a file"),
        (archive_of(tarfile.REGTYPE), "is not a file"),
        (b"no archive" * 100, "cannot be read"),
        (b"", "cannot be read"),
        (bytes(17 * 1024 * 1024), "more than 16 MiB"),
    ],
)
def test_an_image_without_a_shell_is_refused(archive, reason):
    """So is one that is no tar, or has no end; the container is gone all the same."""
    engine = Engine(archive)
    with pytest.raises(FifosRefusedError, match=reason):
        pipe_folders.read_shell(engine, RUNNER, {"a": "b"})
    assert engine.removed == ["c"]


def test_without_the_runners_image_there_are_no_fifos():
    """The reason names the image."""
    with pytest.raises(FifosRefusedError, match="sparring/runner"):
        pipe_folders.find_runner(Engine(b""))
