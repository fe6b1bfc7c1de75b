"""A submission's folder, admitted: what counts for its identity, and what is refused."""

import os

import pytest

from orchestrator.errors import BackendUnavailable, Rejected
from orchestrator.sandboxes.base import BackendSettings, ImageSource
from orchestrator.sandboxes.process import folder_snapshot
from orchestrator.sandboxes.process.backend import ProcessBackend

COMMAND = ("python", "player.py")


@pytest.fixture
def folder(tmp_path):
    """A small submission."""
    made = tmp_path / "entry"
    (made / "weights").mkdir(parents=True)
    (made / "player.py").write_text("print()")
    (made / "weights" / "w.bin").write_bytes(b"\0\1")
    return made


@pytest.fixture
def images(tmp_path):
    """Where snapshots are kept."""
    return tmp_path / "images"


def test_a_snapshot_is_a_read_only_copy_named_by_its_digest(folder, images):
    """The copy has the same files, none writable, in a folder named by its digest, and nothing else is left."""
    digest, kept, new = folder_snapshot.snapshot_folder(folder, images, COMMAND)
    assert new
    assert digest == f"sha256:{kept.name}"
    assert (kept / "player.py").read_text() == "print()"
    assert (kept / "weights" / "w.bin").read_bytes() == b"\0\1"
    assert all(path.stat().st_mode & 0o222 == 0 for path in [kept, *kept.rglob("*")])
    assert list(images.iterdir()) == [kept]


def test_admitting_again_changes_nothing(folder, images):
    """The same content is the same snapshot, whatever its times, is kept once, and is new once."""
    digest, kept, _ = folder_snapshot.snapshot_folder(folder, images, COMMAND)
    os.utime(folder / "player.py", (1, 1))
    assert folder_snapshot.snapshot_folder(folder, images, COMMAND) == (digest, kept, False)
    assert len(list(images.iterdir())) == 1


def test_a_change_after_admission_does_not_reach_the_snapshot(folder, images):
    """What plays is what was admitted."""
    _, kept, _ = folder_snapshot.snapshot_folder(folder, images, COMMAND)
    (folder / "player.py").write_text("raise SystemExit")
    assert (kept / "player.py").read_text() == "print()"


def test_content_name_mode_and_command_make_the_identity(folder, images):
    """Another byte, another name, another x bit or another command is another submission."""
    digests = [folder_snapshot.snapshot_folder(folder, images, COMMAND)[0]]
    digests.append(folder_snapshot.snapshot_folder(folder, images, (*COMMAND, "--fast"))[0])
    (folder / "player.py").chmod(0o755)
    digests.append(folder_snapshot.snapshot_folder(folder, images, COMMAND)[0])
    (folder / "weights" / "w.bin").write_bytes(b"\0\2")
    digests.append(folder_snapshot.snapshot_folder(folder, images, COMMAND)[0])
    (folder / "weights" / "w.bin").rename(folder / "weights" / "v.bin")
    digests.append(folder_snapshot.snapshot_folder(folder, images, COMMAND)[0])
    assert len(set(digests)) == 5


def test_byte_code_is_left_out(folder, images):
    """What Python leaves in __pycache__ neither counts nor is copied."""
    before, *_ = folder_snapshot.snapshot_folder(folder, images, COMMAND)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert folder_snapshot.snapshot_folder(folder, images, COMMAND)[0] == before


def test_everything_odd_is_named_at_once(folder, images):
    """Links and special files are refused together, by their place, in printable letters; nothing is kept."""
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "weights" / "folder-link").symlink_to("/etc")
    os.mkfifo(folder / "pi\x1bpe")
    with pytest.raises(Rejected) as caught:
        folder_snapshot.snapshot_folder(folder, images, COMMAND)
    assert {problem.place for problem in caught.value.problems} == {"link", "weights/folder-link", "pi\\x1bpe"}
    assert not images.exists()


def test_a_long_list_of_problems_is_cut(folder, images):
    """A thousand links are not a thousand lines."""
    for number in range(1000):
        (folder / f"link-{number}").symlink_to("x")
    with pytest.raises(Rejected) as caught:
        folder_snapshot.snapshot_folder(folder, images, COMMAND)
    assert len(caught.value.problems) == 21
    assert "980 more" in caught.value.problems[-1].what


def test_too_much_is_refused_with_both_numbers(folder, images, monkeypatch):
    """A folder larger than allowed is refused, saying how large it is and may be."""
    monkeypatch.setattr(folder_snapshot, "MAX_FOLDER_BYTES", 8)
    with pytest.raises(Rejected, match=r"9 bytes, at most 8"):
        folder_snapshot.snapshot_folder(folder, images, COMMAND)


def test_a_file_that_became_a_link_is_not_followed(folder, images, monkeypatch):
    """A file that is exchanged between the look and the copy is not read through the link."""
    look = folder_snapshot._list_files

    def survey(where):
        found = look(where)
        (folder / "player.py").unlink()
        (folder / "player.py").symlink_to("/etc/passwd")
        return found

    monkeypatch.setattr(folder_snapshot, "_list_files", survey)
    with pytest.raises(BackendUnavailable):
        folder_snapshot.snapshot_folder(folder, images, COMMAND)
    assert list(images.iterdir()) == []


def test_a_strangers_submission_is_refused_without_isolation(folder, tmp_path):
    """The process backend starts strangers only when the operator allowed it; the message says both ways out."""
    stranger = ImageSource(folder=folder, command=COMMAND)
    with pytest.raises(Rejected, match="--backend container"):
        ProcessBackend(BackendSettings(tmp_path)).admit(stranger)
    allowed = ProcessBackend(BackendSettings(tmp_path, allow_unisolated=True)).admit(stranger)
    assert allowed.name == "entry"
    assert allowed.command == COMMAND
