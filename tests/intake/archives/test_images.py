"""An image in a package: every byte is hashed, and every entry of its layers looked at."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import Rejected
from orchestrator.intake import image_archive
from orchestrator.intake.archive import ArchiveBounds
from orchestrator.intake.image_archive import CONFIG, LAYER, MANIFEST


def named(data: bytes) -> str:
    """Returns the digest of some bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Layout:
    """An OCI layout that is written as it is described, right or wrong."""

    def __init__(self, folder: Path, layers: list[bytes], *, press: bool = False) -> None:
        self.folder = folder
        self.blobs = folder / "blobs" / "sha256"
        self.blobs.mkdir(parents=True)
        self.config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/x"]}}
        self.config["rootfs"] = {"type": "layers", "diff_ids": [named(layer) for layer in layers]}
        pressed = [gzip.compress(layer) if press else layer for layer in layers]
        self.layers = [self.blob(LAYER + "+gzip" * press, layer) for layer in pressed]
        self.manifest = {"schemaVersion": 2, "mediaType": MANIFEST}
        self.index = {"schemaVersion": 2}
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def blob(self, kind: str, data: bytes) -> dict[str, object]:
        """Writes a blob; returns its descriptor."""
        (self.blobs / named(data).removeprefix("sha256:")).write_bytes(data)
        return {"mediaType": kind, "digest": named(data), "size": len(data)}

    def write(self) -> "Layout":
        """Writes what is not there yet."""
        config = self.config if "digest" in self.config else self.blob(CONFIG, json.dumps(self.config).encode())
        described = {"config": config, "layers": self.layers}
        text = json.dumps({**described, **self.manifest}).encode()
        (self.folder / "index.json").write_text(json.dumps({"manifests": [self.blob(MANIFEST, text)], **self.index}))
        return self


@pytest.fixture
def layout(tmp_path, make) -> Callable[..., Layout]:
    """Returns a function that describes an image of layers, each a dictionary of members."""

    def layout(*layers: dict[str, bytes | tarfile.TarInfo], **more) -> Layout:
        return Layout(
            tmp_path / "image", [make.tar(layer, tarfile.PAX_FORMAT) for layer in layers or ({"x": b"1"},)], **more
        )

    return layout


@pytest.fixture
def refused(layout) -> Callable[..., str]:
    """Returns why an image of such layers is refused, or one that was described otherwise."""

    def refused(*layers: dict[str, bytes | tarfile.TarInfo], made: Layout | None = None, **bounds) -> str:
        found = made or layout(*layers).write()
        with pytest.raises(Rejected) as caught:
            image_archive.read_image_layout(found.folder, ArchiveBounds(**bounds))
        assert all(problem.remedy for problem in caught.value.problems)
        return str(caught.value)

    return refused


@pytest.mark.parametrize("press", [False, True])
def test_a_plain_image_is_read(layout, make, press) -> None:
    """Configuration and layers come out, each layer without compression and with its own digest."""
    layers = [{"x": b"1", "dir/.wh.gone": b"", "dir/.wh..wh..opq": b""}, {"y": b"2"}, {"y": b"2"}]
    parts = image_archive.read_image_layout(layout(*layers, press=press).write().folder)
    assert parts.config["config"] == {"Cmd": ["/x"]}
    raw = [make.tar(layer, tarfile.PAX_FORMAT) for layer in layers]
    assert [b"".join(layer.read_pieces()) for layer in parts.layers] == raw
    assert [(layer.diff_id, layer.size) for layer in parts.layers] == [(named(each), len(each)) for each in raw]


def test_links_and_devices_of_an_ordinary_image_are_fine(layout, make) -> None:
    """What distributions ship is read: links anywhere, set-id bits, nodes in /dev, capabilities."""
    members = {
        "./": make.special(b"5"),
        "usr/bin/x": b"x",
        "usr/bin/y": make.special(tarfile.LNKTYPE, "usr/bin/x"),
        "bin": make.special(tarfile.SYMTYPE, "../../usr/bin"),
        "usr/bin/su": make.special(b"0", mode=0o4755),
        "./dev/null": make.special(tarfile.CHRTYPE),
        "usr/bin/ping": make.special(
            b"0", pax_headers={"SCHILY.xattr.security.capability": "x", "SCHILY.xattr.user.a": "b"}
        ),
        "caf\u00e9\n": b"odd, and nobody's business",
    }
    assert len(image_archive.read_image_layout(layout(members).write().folder).layers) == 1


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("/etc/passwd", b"", "leads out of the image"),
        ("a/../../b", b"", "leads out of the image"),
        ("x" * 300, b"", "too long or too deep"),
        ("a/" * 200 + "b", b"", "too long or too deep"),
        ("node", (tarfile.BLKTYPE, ""), "a block device"),
        ("dev/sda", (tarfile.BLKTYPE, ""), "a block device"),
        ("node", (tarfile.CHRTYPE, ""), "a character device"),
        ("pipe", (tarfile.FIFOTYPE, ""), "a FIFO"),
        ("link", (tarfile.LNKTYPE, "../../etc/passwd"), "a hard link that leads out"),
        ("link", (tarfile.LNKTYPE, "/etc/passwd"), "a hard link that leads out"),
        ("link", (tarfile.SYMTYPE, "x/" * 2048), "a link whose target has 4096 bytes, at most 4095"),
        ("a/.wh.", b"", "a whiteout of an odd name"),
        ("a/.wh..", b"", "a whiteout of an odd name"),
        ("a/.wh...", b"", "a whiteout of an odd name"),
        (".wh..wh.plnk", b"", "a whiteout of an odd name"),
        (".wh.x", b"full", "a whiteout that is no empty file"),
        (".wh.x", (tarfile.SYMTYPE, "y"), "a whiteout that is no empty file"),
        ("x", {"SCHILY.xattr.trusted.overlay.redirect": "/"}, "the extended attribute trusted.overlay.redirect"),
        ("x", {"SCHILY.xattr.user.overlay.opaque": "y"}, "the extended attribute user.overlay.opaque"),
        ("x", {"GNU.sparse.major": "1"}, "the record 'GNU.sparse.major'"),
    ],
)
def test_odd_entries_are_refused(refused, make, name, content, what) -> None:
    """Each entry that an engine could trip over is named."""
    if isinstance(content, tuple):
        content = make.special(*content)
    if isinstance(content, dict):
        content = make.special(b"0", pax_headers=content)
    text = refused({"fine": b""}, {name: content})
    assert what in text
    assert "image layer 2" in text


def test_all_odd_entries_come_at_once(refused, make) -> None:
    """The entries of all layers are looked at before anything is refused."""
    text = refused({"/a": b""}, {"../b": b"", "c": make.special(tarfile.FIFOTYPE)})
    assert "3 problems" in text


def test_a_changed_byte_of_a_layer_is_noticed(refused, layout) -> None:
    """A blob that is not what its name says is refused."""
    made = layout({"x": b"1" * 600}).write()
    path = made.blobs / made.layers[0]["digest"].removeprefix("sha256:")
    data = bytearray(path.read_bytes())
    data[data.index(b"111")] ^= 1
    path.write_bytes(data)
    assert "declared are" in refused(made=made)


def test_a_layer_that_inflates_to_another_is_noticed(refused, layout, make) -> None:
    """The digest of what comes out has to be the configuration's, whatever the digest of what came in."""
    made = layout({"x": b"1"}, press=True)
    made.layers = [made.blob(LAYER + "+gzip", gzip.compress(make.tar({"x": b"2"})))]
    [old] = [path for path in made.blobs.iterdir() if path.name != made.layers[0]["digest"].removeprefix("sha256:")]
    old.unlink()
    assert f"declared are 10240 with {made.config['rootfs']['diff_ids'][0]}" in refused(made=made.write())


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (
            lambda made: made.config["rootfs"]["diff_ids"].append("sha256:" + "0" * 64),
            "it names 2 layers, and the manifest 1",
        ),
        (lambda made: made.config["rootfs"].update(diff_ids=["../x"]), "rootfs.diff_ids[0]"),
        (lambda made: made.config.pop("rootfs"), "rootfs: missing"),
        (lambda made: made.layers[0].update(size=1), "declared are 1 with"),
        (lambda made: made.layers[0].update(digest="sha256:../../x"), "layers[0].digest"),
        (lambda made: made.layers[0].update(digest="sha256:" + "0" * 64), "are no part of it"),
        (lambda made: made.layers[0].update(mediaType=f"{LAYER}+zstd"), "of the kind application/vnd"),
        (lambda made: made.manifest.update(layers=[]), "layers: a list of 0 items is too short"),
        (lambda made: made.manifest.update(schemaVersion=1), "schemaVersion"),
        (lambda made: made.index.update(manifests=[]), "manifests: a list of 0 items is too short"),
        (lambda made: made.index.update(manifests=[1, 2]), "manifests: a list of 2 items is too long"),
        (lambda made: made.blob("x", b"smuggled"), "1 files that are no part of it"),
        (lambda made: (made.folder / "oci-layout").unlink(), "missing"),
        (lambda made: (made.folder / "oci-layout").write_text('{"imageLayoutVersion": "2.0"}'), "imageLayoutVersion"),
        (lambda made: (made.folder / "oci-layout").write_text("[" * 100_000), "not JSON: recursion"),
        (lambda made: (made.folder / "oci-layout").write_bytes(bytes(5 * 1024**2)), "more than 4194304 bytes"),
    ],
)
def test_a_layout_that_does_not_hold_together_is_refused(refused, layout, edit, what) -> None:
    """Index, manifest, configuration and layers have to name each other, exactly, and nothing besides."""
    made = layout()
    edit(made)
    text = refused(made=made.write())
    assert any(one in text for one in what.split("|")), text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"config": {"Cmd": ["/x"]}, "config": {"Entrypoint": ["/y"]},', "a key occurs twice"),
        ('{"config": {"Cmd": ["/x"], "Cmd": ["/y"]},', "a key occurs twice"),
        ('{"config": {"Cmd": ["/x"]}, "Config": {"Cmd": ["/y"]},', "'Config' is another spelling of a standard key"),
        ('{"config": {"Cmd": ["/x"], "entrypoint": ["/y"]},', "'entrypoint' is another spelling of a standard key"),
        ('{"config": {"Cmd": ["/x"], "volume\u017f": {"/data": {}}},', "is another spelling of a standard key"),
        ('{"config": {"Cmd": "/x"},', "config.Cmd"),
    ],
)
def test_a_configuration_that_an_engine_reads_otherwise_is_refused(refused, layout, text, what) -> None:
    """Engines take a key in any case, and merge what comes twice: what was tried there would not be what plays here."""
    made = layout()
    rest = {key: value for key, value in made.config.items() if key != "config"}
    made.config = made.blob(CONFIG, (text + json.dumps(rest)[1:]).encode())
    assert what in refused(made=made.write())


@pytest.mark.slow
def test_a_bomb_in_a_layer_ends_early(refused, layout) -> None:
    """A layer that inflates a thousandfold is refused at a hundredfold."""
    made = layout({"x": b"1"})
    header = tarfile.TarInfo("zeros")
    header.size = 300 * 1024**2
    raw = io.BytesIO()
    with gzip.open(raw, "wb") as target:
        target.write(header.tobuf())
        for _ in range(300):
            target.write(bytes(1024**2))
    made.layers = [made.blob(f"{LAYER}+gzip", raw.getvalue())]
    for path in made.blobs.iterdir():
        if path.name != made.layers[0]["digest"].removeprefix("sha256:"):
            path.unlink()
    assert "a bomb" in refused(made=made.write())


def test_layers_are_bounded_together(refused) -> None:
    """The bytes of all layers count, not of each."""
    assert "more than 25000 bytes" in refused({"a": bytes(8000)}, {"b": bytes(8000)}, {"c": bytes(8000)}, image=25_000)
