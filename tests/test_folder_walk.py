"""The one walk through folders that strangers filled."""

import os
import socket
import subprocess
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import folder_walk
from orchestrator.folder_walk import EntryKind, walk_folder

NAMES = [b"a", b"a-b", b"b", b"B", b"\xc3\xa9", b"\xff", b"\xf0\x9f\x98\x80", b"\xee\x80\x80", b"-", b" "]


def paths(root: Path, **options) -> list[str]:
    """Returns what the walk yields, in its order."""
    return [str(entry.path) for entry in walk_folder(root, **options)]


def make(root: Path, *files: str) -> None:
    """Makes files, and the folders that they lie in."""
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


def test_a_folder_comes_before_what_it_holds_and_names_are_sorted(tmp_path):
    """The order is that of the names' bytes in each folder; what a folder holds follows it at once."""
    make(tmp_path, "b/z", "b/a/x", "a-b", "a/y", "B")
    assert paths(tmp_path) == ["B", "a", "a/y", "a-b", "b", "b/a", "b/a/x", "b/z"]


@pytest.mark.slow
@given(names=st.sets(st.sampled_from(NAMES)))
def test_names_that_are_no_text_are_yielded_in_the_order_of_their_bytes(names, tmp_path_factory):
    """A name that is not UTF-8 is found, and comes back as the same bytes."""
    root = tmp_path_factory.mktemp("names")
    for name in names:
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).touch()
    assert [os.fsencode(entry.path) for entry in walk_folder(root)] == sorted(names)


def test_every_kind_is_told_and_no_link_is_followed(tmp_path):
    """A link to a folder is a link, and so is one that leads to itself or nowhere."""
    make(tmp_path, "folder/file")
    (tmp_path / "folder" / "file").chmod(0o700)
    (tmp_path / "to-folder").symlink_to("folder")
    (tmp_path / "to-itself").symlink_to("to-itself")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(tmp_path / "socket"))
    entries = {str(entry.path): entry for entry in walk_folder(tmp_path)}
    assert {name: entry.kind for name, entry in entries.items()} == {
        "folder": EntryKind.FOLDER,
        "folder/file": EntryKind.FILE,
        "pipe": EntryKind.OTHER,
        "socket": EntryKind.OTHER,
        "to-folder": EntryKind.LINK,
        "to-itself": EntryKind.LINK,
    }
    assert entries["folder/file"].size == len("folder/file")
    assert entries["folder/file"].executable


def test_a_folder_that_the_reader_leaves_out_is_not_looked_into(tmp_path):
    """It is yielded itself, and nothing below it is."""
    make(tmp_path, "a/x", "a/inner/x", "b/x")
    assert paths(tmp_path, enter=lambda folder: folder.path.name != "a") == ["a", "b", "b/x"]


def test_a_reader_that_stops_has_stopped_the_walk(tmp_path, monkeypatch):
    """No folder is listed before the reader has seen it."""
    make(tmp_path, "a/x", "b/x")
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(folder_walk.os, "scandir", lambda path: listed.append(path) or scandir(path))
    assert str(next(walk_folder(tmp_path)).path) == "a"
    assert listed == [tmp_path]


def test_what_cannot_be_read_is_the_readers_to_judge(tmp_path):
    """What is gone by the time that it is looked at is reported with its path, and the walk goes on."""
    make(tmp_path, "a/x", "b/y", "c", "d")
    seen, failed = [], []
    for entry in walk_folder(tmp_path, on_error=lambda path, error: failed.append((str(path), type(error)))):
        seen.append(str(entry.path))
        if seen == ["a"]:
            (tmp_path / "a" / "x").unlink()
            (tmp_path / "a").rmdir()
            (tmp_path / "c").unlink()
    assert seen == ["a", "b", "b/y", "d"]
    assert failed == [("a", FileNotFoundError), ("c", FileNotFoundError)]


def test_a_folder_that_is_none_is_reported_as_itself(tmp_path):
    """Of the folder that is walked through, the path is empty; without a reader's judgement it is an error."""
    failed = []
    missing = tmp_path / "missing"
    assert list(walk_folder(missing, on_error=lambda path, _: failed.append(path))) == []
    assert failed == [PurePosixPath()]
    with pytest.raises(FileNotFoundError):
        list(walk_folder(missing))


@pytest.mark.slow
def test_folders_may_lie_deeper_than_a_program_recurses(tmp_path):
    """1500 folders in one another are walked through, and those beyond the kernel's longest path are reported."""
    failed: list[OSError] = []
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(2500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    seen = paths(tmp_path, on_error=lambda _, error: failed.append(error))
    subprocess.run(["rm", "-r", tmp_path / "d"], check=True)  # Python's own removal recurses
    assert len(seen) > 1500
    assert [error.strerror for error in failed] == ["File name too long"]
