"""Packages: the same each time, read back whole, and refused where anything in one was changed."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import InfrastructureFault, Rejected, UsageError
from orchestrator.intake import archive, image_archive, package, package_writer
from orchestrator.intake.package import Package
from orchestrator.sandboxes.image_files import image_config


class Engine:
    """A workshop that has one image, as an engine saves it."""

    def __init__(self, saved: bytes) -> None:
        self.saved = saved

    def save(self, reference: str) -> Iterator[bytes]:
        """Yields it."""
        assert reference == "team/entry:cpu"
        yield from (self.saved[at : at + 1000] for at in range(0, len(self.saved), 1000))

    normalise_config = staticmethod(image_config.normalise_config)


@pytest.fixture(scope="module")
def layers(make) -> list[bytes]:
    """Two layers of an image."""
    return [make.tar({"bin/x": b"x" * 3000}), make.tar({"opt/player.py": b"print()"})]


@pytest.fixture(scope="module")
def config(layers) -> dict:
    """An image's configuration with everything that does not go along."""
    return {
        "architecture": "amd64",
        "os": "linux",
        "created": "2026-01-01T00:00:00Z",
        "author": "somebody",
        "history": [{"created_by": "secret"}],
        "config": {
            "Cmd": ["python", "player.py"],
            "Entrypoint": None,
            "WorkingDir": "/opt",
            "User": "0",
            "Env": ["A=1", "LD_PRELOAD=/x.so", "https_proxy=http://u:p@x", "PATH=/bin"],
            "Volumes": {"/data": {}},
            "Labels": {"sparring.run": "x"},
            "OnBuild": ["RUN x"],
            "Healthcheck": {"Test": ["CMD", "x"]},
            "StopSignal": "9",
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers]},
    }


def saved(make, config: dict, layers: list[bytes], **changes: object) -> bytes:
    """Returns what an engine saves; `3/layer.tar` is there as a link to the first layer."""
    listed = [{"Config": "c.json", "RepoTags": ["other/name:1"], "Layers": ["1/layer.tar", "2/layer.tar"]} | changes]
    files = {"c.json": json.dumps(config).encode(), "1/layer.tar": layers[0], "2/VERSION": b"1.0"}
    files |= {"2/layer.tar": layers[1], "3/layer.tar": make.special(tarfile.SYMTYPE, "../1/layer.tar")}
    return make.tar({**files, "manifest.json": json.dumps(listed).encode()})


@pytest.fixture(scope="module")
def engine(make, config, layers) -> Engine:
    """An engine with that image."""
    return Engine(saved(make, config, layers))


@pytest.fixture
def packed(kept, engine, tmp_path) -> package_writer.WrittenPackage:
    """A package with an image."""
    return package_writer.write_package(kept, tmp_path / "entry.sparring.tar", engine, "team/entry:cpu")


def test_what_is_packed_is_read_back(packed, kept, tmp_path, layers) -> None:
    """Folder and image come out as they went in, and the digest is the file's."""
    assert packed.digest == f"sha256:{hashlib.sha256(packed.path.read_bytes()).hexdigest()}"
    assert packed.size == packed.path.stat().st_size
    with archive.open_archive(packed.path, tmp_path / "w") as unpacked:
        assert unpacked.digest == packed.digest
        assert unpacked.declared_image == packed.image
        names = sorted(path.name for path in kept.iterdir())
        assert {path.name: path.read_bytes() for path in sorted(unpacked.source.iterdir())} == {
            name: (kept / name).read_bytes() for name in names
        }
        parts = image_archive.read_image_layout(unpacked.image)
        assert [b"".join(layer.read_pieces()) for layer in parts.layers] == layers


def test_the_image_is_packed_as_it_will_be(packed, tmp_path) -> None:
    """The configuration in a package is plain already, so its digest is the id that it will have."""
    with archive.open_archive(packed.path, tmp_path / "w") as unpacked:
        config = image_archive.read_image_layout(unpacked.image).config
    assert packed.image == f"sha256:{hashlib.sha256(image_config.normalise_config(config)).hexdigest()}"
    assert config["config"] == {"Cmd": ["python", "player.py"], "WorkingDir": "/opt", "Env": ["A=1", "PATH=/bin"]}
    assert config.keys() == {"architecture", "os", "config", "rootfs"}


def test_the_same_folder_gives_the_same_package(kept, engine, tmp_path) -> None:
    """Byte for byte, with an image and without; the files have no age and no owner, and the list comes first."""
    for workshop, image in ((engine, "team/entry:cpu"), (None, "")):
        one, two = (package_writer.write_package(kept, tmp_path / f"{n}.sparring.tar", workshop, image) for n in "ab")
        assert one.path.read_bytes() == two.path.read_bytes()
        with tarfile.open(one.path) as tar:
            members = tar.getmembers()
        assert members[0].name == "sparring-package.json"
        assert {(m.uid, m.gid, m.mtime, m.uname) for m in members} == {(0, 0, 0, "")}
        names = [m.name for m in members[1:]]
        assert names == sorted(names, key=lambda name: (not name.startswith("source/"), name))


def test_nothing_is_written_over(kept, tmp_path) -> None:
    """An older package is replaced; another file, or a folder that is not there, is a mistake."""
    target = tmp_path / "x.sparring.tar"
    package_writer.write_package(kept, target)
    package_writer.write_package(kept, target)
    (tmp_path / "notes").write_text("mine")
    for path in (tmp_path / "notes", tmp_path / "nowhere" / "x", tmp_path):
        with pytest.raises(UsageError, match="--out"):
            package_writer.write_package(kept, path)
    assert (tmp_path / "notes").read_text() == "mine"


def test_nothing_is_left_of_what_fails(kept, engine, tmp_path, make, config, layers) -> None:
    """An image that could be brought in nowhere is refused here, and no file is there afterwards."""
    odd = make.tar({"../x": b""})
    rootfs = {
        "type": "layers",
        "diff_ids": [config["rootfs"]["diff_ids"][0], f"sha256:{hashlib.sha256(odd).hexdigest()}"],
    }
    bad = Engine(saved(make, config | {"rootfs": rootfs}, [layers[0], odd]))
    with pytest.raises(Rejected, match="leads out of the image"):
        package_writer.write_package(kept, tmp_path / "x", bad, "team/entry:cpu")
    with pytest.raises(InfrastructureFault, match="in a form that is not supported"):
        package_writer.write_package(
            kept, tmp_path / "x", Engine(saved(make, config, layers, Layers=["4/layer.tar"])), "team/entry:cpu"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["entry"]


def test_a_layer_that_is_there_twice_is_packed_once(kept, tmp_path, make, config, layers) -> None:
    """An engine may save a layer as a link to an equal one; both places get it back."""
    first, second = config["rootfs"]["diff_ids"]
    rootfs = {"type": "layers", "diff_ids": [first, second, first]}
    names = [f"{number}/layer.tar" for number in (1, 2, 3)]
    twice = Engine(saved(make, config | {"rootfs": rootfs}, layers, Layers=names))
    packed = package_writer.write_package(kept, tmp_path / "x", twice, "team/entry:cpu")
    with archive.open_archive(packed.path, tmp_path / "w") as unpacked:
        parts = image_archive.read_image_layout(unpacked.image)
        assert [b"".join(layer.read_pieces()) for layer in parts.layers] == [layers[0], layers[1], layers[0]]


def rewritten(path: Path, edit) -> bytes:
    """Returns a package with its members changed by `edit`, a function of a list of names and contents."""
    with tarfile.open(path) as tar:
        members = [(m.name, tar.extractfile(m).read()) for m in tar]
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in edit(members):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def relisted(them, **changes) -> list:
    """Returns the members with other words in the list of them."""
    return [(them[0][0], json.dumps(json.loads(them[0][1]) | changes).encode()), *them[1:]]


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda m: [*m, ("source/more.py", b"x")], "source/more.py: not listed"),
        (lambda m: [*m, ("elsewhere", b"x")], "elsewhere: not listed"),
        (lambda m: m[:-1], "but missing"),
        (lambda m: [*m[:1], (m[1][0], m[1][1][::-1]), *m[2:]], "its SHA-256 is"),
        (lambda m: [*m[:1], (m[1][0], m[1][1] + b"x"), *m[2:]], "bytes, sparring-package.json says"),
        (lambda m: [*m, m[1]], "there already"),
        (lambda m: [m[1], m[0], *m[2:]], "not the first in the archive"),
        (lambda m: relisted(m, sparring_package=2), "sparring_package"),
        (lambda m: relisted(m, name="../x"), "name: '../x' is not allowed here"),
        (lambda m: relisted(m, image="latest"), "image: 'latest' is not allowed here"),
        (lambda m: relisted(m, more=1), "more: unknown key"),
        (lambda m: relisted(m, members=json.loads(m[0][1])["members"] * 2), "lists a file twice"),
        (lambda m: [(m[0][0], b"{"), *m[1:]], "is not valid"),
        (lambda m: [(m[0][0], b" " * (8 * 1024**2 + 1)), *m[1:]], "8388609 bytes, at most 8388608"),
        (lambda m: [each for each in m if "yaml" not in each[0]], "submission.yaml: listed in"),
    ],
)
def test_a_package_that_was_changed_is_refused(packed, tmp_path, edit, what) -> None:
    """What the list says and what is there have to be the same."""
    path = tmp_path / "changed"
    path.write_bytes(rewritten(packed.path, edit))
    with pytest.raises(Rejected) as caught, archive.open_archive(path, tmp_path / "w"):
        pass
    assert what in str(caught.value)
    assert not any((tmp_path / "w").iterdir())


@pytest.fixture(scope="module")
def written(make, engine, tmp_path_factory) -> package_writer.WrittenPackage:
    """A package with an image, which no test changes."""
    room = tmp_path_factory.mktemp("written")
    folder = room / "entry"
    folder.mkdir()
    for name, content in make.ordinary.items():
        (folder / name).write_bytes(content)
    return package_writer.write_package(folder, room / "p", engine, "team/entry:cpu")


@pytest.mark.slow
@settings(max_examples=300)
@given(data=st.data())
def test_any_changed_byte_is_noticed(data, tmp_path_factory, make, written, layers) -> None:
    """Whatever byte of a package is changed: it is refused, or what is read is what was packed."""
    room = tmp_path_factory.mktemp("p")
    changed = bytearray(written.path.read_bytes())
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    (room / "p").write_bytes(changed)
    try:
        with archive.open_archive(room / "p", room / "w") as unpacked:
            read = {path.name: path.read_bytes() for path in unpacked.source.iterdir()}
            raw = [b"".join(layer.read_pieces()) for layer in image_archive.read_image_layout(unpacked.image).layers]
            promised = unpacked.declared_image
    except Rejected:
        return
    # A mode's bits are in no digest, nor is the id that is promised, which is compared where it is brought in.
    assert (read, raw) == (make.ordinary, layers)
    assert len(promised) == len(written.image)


def test_the_list_is_the_same_text_each_time() -> None:
    """What is read is written again as the same bytes."""
    text = Package(sparring_package=1, name="x", members=[]).encode()
    assert package.parse_package(text).encode() == text
