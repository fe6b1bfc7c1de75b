"""Archives as strangers could make them, byte by byte, and the results of reading them."""

import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.errors import Rejected
from orchestrator.intake import archive
from orchestrator.intake.archive import ArchiveBounds

MANIFEST = b"sparring: 1\nname: entry\nside: attack\ncommand: [python, player.py]\n"
ORDINARY = {"submission.yaml": MANIFEST, "player.py": b"print('x')\n"}


def tarred(files: Mapping[str, bytes | tarfile.TarInfo], form: int = tarfile.GNU_FORMAT) -> bytes:
    """Returns a tar of files by name. A TarInfo is added as it is, followed by as many zeros as its size."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as tar:
        for name, content in files.items():
            entry = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            entry.name = name
            data = bytes(entry.size) if isinstance(content, tarfile.TarInfo) else content
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def special(kind: bytes, link: str = "", **more: Any) -> tarfile.TarInfo:
    """Returns a member that is no plain file."""
    entry = tarfile.TarInfo("x")
    entry.type, entry.linkname = kind, link
    for name, value in more.items():
        setattr(entry, name, value)
    return entry


def zipped(files: Mapping[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Returns a zip of files by name."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as target:
        for name, content in files.items():
            target.writestr(name, content)
    return made.getvalue()


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """Ways to make archives: `tar`, `special`, `zip`, and the files of an `ordinary` submission."""
    return SimpleNamespace(tar=tarred, special=special, zip=zipped, ordinary=ORDINARY, manifest=MANIFEST)


@pytest.fixture
def read(tmp_path_factory) -> Callable[..., dict[str, bytes]]:
    """Returns a function that reads an archive and returns its files by path; it checks that nothing is left."""
    room = tmp_path_factory.mktemp("room")

    def read(data: bytes, bounds: ArchiveBounds | None = None) -> dict[str, bytes]:
        path, workspace = room / "upload", room / "workspace"
        path.write_bytes(data)
        try:
            with archive.open_archive(path, workspace, bounds) as unpacked:
                files = [found for found in unpacked.source.rglob("*") if found.is_file()]
                return {str(found.relative_to(unpacked.source)): found.read_bytes() for found in files}
        finally:
            assert {found.name for found in room.iterdir()} == {"upload", "workspace"}
            assert not any(workspace.iterdir())

    return read


@pytest.fixture
def refused(read) -> Callable[..., list[str]]:
    """Returns the problems with which an archive is refused, as `place: what`; each has its remedy."""

    def refused(data: bytes, bounds: ArchiveBounds | None = None) -> list[str]:
        with pytest.raises(Rejected) as caught:
            read(data, bounds)
        assert all(problem.remedy for problem in caught.value.problems if not problem.what.startswith("and "))
        return [f"{problem.place}: {problem.what}" for problem in caught.value.problems]

    return refused


@pytest.fixture
def kept(tmp_path) -> Path:
    """A folder with an ordinary submission in it."""
    folder = tmp_path / "entry"
    folder.mkdir()
    for name, content in ORDINARY.items():
        (folder / name).write_bytes(content)
    return folder
