"""Whatever bytes come: an archive is refused, or read as what it is, and nothing leaves the folder."""

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import Rejected
from orchestrator.intake import archive
from orchestrator.intake.archive import ArchiveBounds

INPUTS = 10_000 if os.environ.get("SPARRING_SOAK") else 200
SMALL = ArchiveBounds(source=1024**2, image=1024**2, members=50, unchecked_bytes=1024**2)
KINDS = ("tar", "gz", "zip")


@pytest.fixture(scope="module")
def whole(make) -> dict[str, bytes]:
    """A good archive of each kind."""
    files = make.ordinary | {"weights/a.bin": bytes(range(256)) * 3}
    tar = make.tar(files)
    return {"tar": tar, "gz": gzip.compress(tar), "zip": make.zip(files)}


@pytest.fixture(scope="module")
def room(tmp_path_factory) -> Path:
    """Where uploads lie, and are read."""
    return tmp_path_factory.mktemp("fuzz")


def outcome(data: bytes, room: Path) -> dict[str, bytes] | None:
    """Returns what was read, by path; None when it was refused. Everything written lies in one folder of its own."""
    (room / "upload").write_bytes(data)
    try:
        with archive.open_archive(room / "upload", room / "inner", SMALL) as unpacked:
            top = unpacked.source
            assert top.resolve().is_relative_to((room / "inner").resolve())
            found = list(top.rglob("*"))
            assert all((path.is_file() or path.is_dir()) and not path.is_symlink() for path in found)
            read = {str(path.relative_to(top)): path.read_bytes() for path in found if path.is_file()}
    except Rejected:
        read = None
    assert sorted(path.name for path in room.iterdir()) == ["inner", "upload"]
    assert not any((room / "inner").iterdir())
    return read


@pytest.fixture(scope="module")
def contents(whole, room) -> dict[str, set[bytes]]:
    """What is read from the good archives: the content of each file, by the kind of archive."""
    return {kind: set(outcome(data, room).values()) for kind, data in whole.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=INPUTS)
@given(data=st.data())
def test_changed_bytes_are_refused_or_harmless(kind, whole, room, data) -> None:
    """Changed, cut or inserted bytes end in a refusal, or in files within the folder and its bounds."""
    good = bytearray(whole[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(good) - 1))
        match data.draw(st.sampled_from(["change", "cut", "insert", "copy"])):
            case "change":
                good[at] = data.draw(st.integers(0, 255))
            case "cut":
                del good[at : at + data.draw(st.integers(1, 600))]
            case "insert":
                good[at:at] = data.draw(st.binary(min_size=1, max_size=40))
            case _:
                good[at:at] = good[at // 2 : at // 2 + 512]
        if not good:
            break
    read = outcome(bytes(good), room)
    assert read is None or sum(map(len, read.values())) <= SMALL.source


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gz", "zip"])
@settings(max_examples=INPUTS)
@given(data=st.data())
def test_one_changed_byte_never_changes_a_file(kind, whole, contents, room, data) -> None:
    """With a checksum over every file, one changed byte is a refusal, or the same content under some names."""
    good = bytearray(whole[kind])
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] ^= data.draw(st.integers(1, 255))
    read = outcome(bytes(good), room)
    assert read is None or set(read.values()) <= contents[kind]


@pytest.mark.slow
@settings(max_examples=INPUTS)
@given(data=st.binary(max_size=2000), begin=st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b\x08\x00"]))
def test_any_bytes_are_refused(data, begin, room) -> None:
    """What is no archive is refused, whatever it begins with."""
    assert outcome(begin + data, room) is None
