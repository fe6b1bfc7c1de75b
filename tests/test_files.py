"""Files that are written whole or not at all, and once."""

import errno
import os
import threading
from pathlib import Path

import pytest

from orchestrator.errors import StoreFault
from orchestrator.files import owner_of_new_files, write_once, write_whole


def test_of_many_that_write_once_one_does(tmp_path) -> None:
    """Every thread finds what the one wrote, and nothing else is left."""
    path, wrote = tmp_path / "secret", []
    start = threading.Barrier(8)

    def write(number: int) -> None:
        start.wait()
        if write_once(path, bytes([number]) * 32, 0o600):
            wrote.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrote) == 1
    assert path.read_bytes() == bytes(wrote) * 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]


@pytest.mark.parametrize("there", [False, True])
def test_where_files_have_no_second_names(tmp_path, monkeypatch, there) -> None:
    """It is written all the same, and what is there stays."""

    def refused(self, target) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    path = tmp_path / "secret"
    if there:
        path.write_bytes(b"old")
    assert write_once(path, b"new") is not there
    assert path.read_bytes() == (b"old" if there else b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]


def test_what_cannot_be_written_is_named(tmp_path) -> None:
    """One clear error, and nothing half-written beside it."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreFault, match="file/secret cannot be written"):
        write_whole(tmp_path / "file" / "secret", b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_the_owner_of_what_is_made_in_a_folder(tmp_path) -> None:
    """Nothing is left of the question; where nothing can be made, that is said."""
    assert owner_of_new_files(tmp_path / "new") == os.geteuid()
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFault, match="cannot be written"):
        owner_of_new_files(tmp_path / "file")
