"""Images that come as files, played by runc where no engine listens: the same files, the same id, a real player."""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.application.submissions import load_image
from orchestrator.intake import package_writer
from orchestrator.sandboxes.base import Backend, Ending, ImageSource
from orchestrator.sandboxes.docker.images.engine_images import EngineImages
from orchestrator.sandboxes.runc.image_folder import ImageFolder

from .conftest import open_backend
from .test_runc import sandbox_spec

pytestmark = [pytest.mark.docker, pytest.mark.parametrize("backend", ["runc"], indirect=True, scope="module")]

LAYERS = """
USER 0
RUN mkdir -p /data/deep /gone && echo one > /data/one && ln /data/one /data/same
RUN echo two > /data/deep/two && touch /gone/x
RUN rm -r /gone && rm /data/one && ln -s /data/same /data/link && chmod 2755 /data/deep
RUN rm -r /data/deep && mkdir /data/deep && echo three > /data/deep/three && rm -rf /opt && echo file > /opt
WORKDIR /made/by/nobody
"""
NAME = "team/entry:1"
PLACES = ("dev", "proc", "sys", ".dockerenv", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab", "tmp")
"""What an engine makes in each container, or leaves empty there."""


@pytest.fixture(scope="module")
def layers_image(build) -> str:
    """The id of an image whose layers remove and replace what others have."""
    return build(LAYERS)


@pytest.fixture(scope="module")
def packed(layers_image, tmp_path_factory) -> tuple[Path, str]:
    """The image as files, and the id that it was promised."""
    workspace = tmp_path_factory.mktemp("packed")
    store = open_backend("docker", workspace).image_store()
    return workspace / "image", package_writer.write_layout(store, layers_image, workspace / "image")


@pytest.fixture
def alone(backend, tmp_path, monkeypatch) -> Backend:
    """A backend that finds no engine, and keeps images in a folder of its own."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    without = open_backend("runc", tmp_path)
    without.require_available()
    return without


def tree_of(pieces: Iterator[bytes], where: Path) -> dict[str, tuple]:
    """Returns what a tar stream says of each path: kind, permissions, time, where a link leads, and a file's bytes."""
    with where.open("wb") as file:
        file.writelines(pieces)
    found = {}
    with tarfile.open(where) as tar:
        for member in tar:
            name = member.name.strip("/")
            if name.split("/")[0] in PLACES or name in PLACES:
                continue
            content = None if member.issym() else tar.extractfile(member)
            data = content.read() if content else b""
            kind = "file" if member.isreg() or member.islnk() else member.type
            modified = 0 if member.isdir() else int(member.mtime)  # an engine writes into folders of its containers
            found[name] = (kind, member.mode & 0o7777, modified, member.linkname if member.issym() else "", data)
    return found


def test_the_files_are_those_that_an_engine_exports(alone, backend, packed, layers_image, tmp_path) -> None:
    """Whiteouts, covered folders, second names of files: everything lies as in a container of the engine."""
    layout, promised = packed
    folder = alone.image_store()
    assert isinstance(folder, ImageFolder)
    assert load_image.load_image(layout, NAME, folder, tmp_path) == promised
    with folder.export(folder.image(NAME), "/") as pieces:
        ours = tree_of(pieces, tmp_path / "ours.tar")
    engines = backend._images
    assert isinstance(engines, EngineImages)
    with engines.export(engines.image(layers_image), "/made/by/nobody") as pieces:
        theirs = tree_of(pieces, tmp_path / "theirs.tar")
    assert ours["data/same"][4] == b"one\n"
    assert not {"gone", "gone/x", "data/one", "data/deep/two"} & ours.keys()
    assert ours == theirs


def test_a_player_plays_where_there_is_no_engine(alone, packed, run, policy, listen, tmp_path) -> None:
    """It is admitted, mounted and started as any other, and finds its files."""
    layout, promised = packed
    load_image.load_image(layout, NAME, alone.image_store(), tmp_path)
    image = alone.admit(ImageSource(image=NAME))
    assert image.digest == promised
    words = "import os; print(os.getcwd(), open('/data/deep/three').read(), os.path.exists('/gone'))"
    player = alone.start(sandbox_spec(image, run, policy, "python3", "-c", words))
    assert listen.end(player).decode().split() == ["/made/by/nobody", "three", "False"]
    assert player.stop().ending is Ending.CLEAN
    assert alone.clean_up() == 0
    alone.image_store().untag(NAME)
    assert alone.clean_up() == 1
