"""Images in a folder: brought in whole or not at all, found by name and id, judged as an engine's are."""

import hashlib
import io
import json
import platform
import tarfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.domain.images import read_image_config
from orchestrator.errors import InfrastructureFault, Rejected, UsageError
from orchestrator.sandboxes.base import BuildRequest, ImageLayer, ImageSource
from orchestrator.sandboxes.image_files.image_admission import ImageAdmission
from orchestrator.sandboxes.runc import image_storage
from orchestrator.sandboxes.runc.image_folder import ImageFolder

from ..image_files.test_flatten import layer_of, tar_of

TAG = "team/entry:1"
FILES = tar_of(("bin", None), ("bin/player", b"#!/bin/player\n"), ("etc", None))


def config_of(*layers: ImageLayer, **changes) -> dict:
    """Returns the configuration of an image for this machine."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    settings = {"Entrypoint": ["/bin/player"], "WorkingDir": "/work", "Volumes": {"/data": {}}, **changes}
    roots = {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]}
    return {"architecture": machine, "os": "linux", "config": settings, "rootfs": roots}


def executable(data: bytes) -> bytes:
    """Returns a tar whose files everybody may run: the mode of each header is changed, and its checksum."""
    changed = bytearray(data)
    for at in range(0, len(changed), 512):
        if changed[at + 100 : at + 107] == b"0000644":
            changed[at + 100 : at + 107] = b"0000755"
            changed[at + 148 : at + 156] = b" " * 8
            changed[at + 148 : at + 156] = b"%06o\0 " % sum(changed[at : at + 512])
    return bytes(changed)


@pytest.fixture
def layer() -> ImageLayer:
    """A layer with a program in it."""
    return layer_of(executable(FILES))


@pytest.fixture
def images(tmp_path) -> ImageFolder:
    """A folder that nobody made yet."""
    return ImageFolder(tmp_path / "images")


def test_an_image_is_found_by_its_name_and_its_id(images, layer) -> None:
    """The id is the digest of the configuration as it was written anew; what is not kept of it is not there."""
    assert (images.image(TAG), images.images("*")) == (None, [])
    identity = images.load(config_of(layer), [layer], TAG)
    normal = images.normalise_config(config_of(layer))
    assert identity == f"sha256:{hashlib.sha256(normal).hexdigest()}"
    for reference in (TAG, identity):
        found = images.image(reference)
        assert found["Id"] == identity
        assert "Volumes" not in found["Config"]
    assert images.images("team/*") == [{"Id": identity, "RepoTags": [TAG]}]
    assert images.images("sparring/*") == []
    for reference in ("team/entry:2", "sha256:" + "0" * 64, f"../images/{identity}", f"x@{identity}", ""):
        assert images.image(reference) is None


def test_it_is_admitted_as_an_engines_is(images, layer) -> None:
    """Its program is looked for in its files, and its facts are shown; the working folder is made."""
    images.load(config_of(layer), [layer], TAG)
    admission = ImageAdmission(images)
    admitted = admission.admit(ImageSource(image=TAG))
    assert admission.config_of(admitted).command == ("/bin/player",)
    facts = admission.inspect_image(TAG)
    assert (facts.layers, facts.problems) == ((layer.size,), ())
    assert facts.tree.files == len({"bin", "bin/player", "etc", "etc/hosts", "dev", "proc", "sys", "tmp", "work"})


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ((("tmp", "-> /etc"),), "/tmp: a symbolic link"),  # noqa: S108  the image's own
        ((("bin", None), ("bin/player", "-> nowhere")), "is not in the image"),
        ((("etc", b"a file"),), "/etc: a file"),
    ],
)
def test_files_that_keep_it_from_playing_are_named(images, members, what) -> None:
    """What lies where a runtime mounts is looked at in the layers as they came, and so is the program."""
    layer = layer_of(executable(tar_of(*members)))
    images.load(config_of(layer), [layer], TAG)
    with pytest.raises(Rejected, match=what):
        ImageAdmission(images).admit(ImageSource(image=TAG))


@pytest.mark.parametrize("folder", ["../../away", "/proc/self", "work"])
def test_a_working_folder_that_is_refused_is_not_made(images, layer, folder) -> None:
    """No member of the stream leads out of the image, and the image is not admitted."""
    identity = images.load(config_of(layer, WorkingDir=folder), [layer], TAG)
    with (
        images.export(images.image(identity), "/") as pieces,
        tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as tar,
    ):
        names = tar.getnames()
    assert not {"..", "away", "proc/self", "work"} & {*names, *(name.split("/")[0] for name in names)}
    with pytest.raises(Rejected, match="WORKDIR"):
        ImageAdmission(images).admit(ImageSource(image=TAG))


def test_who_is_not_there_is_said_with_the_remedy(images) -> None:
    """There is nothing to pull from."""
    with pytest.raises(Rejected, match="this machine does not have it; bring it with `sparring image load FILE`"):
        ImageAdmission(images).admit(ImageSource(image=TAG))


def test_with_its_last_name_an_image_goes(images, layer) -> None:
    """Two names of one image are two; a name that is given again leads elsewhere."""
    identity = images.load(config_of(layer), [layer], TAG)
    images.load(config_of(layer), [layer], "other:1")
    images.untag(TAG)
    assert (images.image(TAG), images.image(identity)["Id"]) == (None, identity)
    images.untag("other:1")
    assert images.image(identity) is None
    images.untag("other:1")
    assert sorted(path.name for path in images.folder.iterdir()) == ["lock", "tags.json"]


def test_nothing_is_half_there(images, layer, monkeypatch) -> None:
    """A layer that is refused, a full disk or a killed command leaves no image, and what was left is removed."""
    other = layer_of(FILES, digest="sha256:" + "1" * 64)
    with pytest.raises(Rejected, match="its digest is not"):
        images.load(config_of(other), [other], TAG)
    with pytest.raises(Rejected, match="not those that its configuration names"):
        images.load(config_of(layer), [other], TAG)
    with monkeypatch.context() as patch:
        patch.setattr(image_storage, "MIN_FREE_BYTES", 2**60)
        with pytest.raises(InfrastructureFault, match="stay free"):
            images.load(config_of(layer), [layer], TAG)
    killed = images.folder / ".new-abc"
    killed.mkdir()
    (killed / "rootfs.tar").write_bytes(b"half")
    assert images.image(TAG) is None
    images.load(config_of(layer), [layer], TAG)
    assert not killed.exists()


def test_several_commands_bring_images_in(images) -> None:
    """Each finds all the names of the others."""
    layers = [layer_of(tar_of(("x", str(number).encode()))) for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        ids = list(
            pool.map(lambda n: ImageFolder(images.folder).load(config_of(layers[n]), [layers[n]], f"e:{n}"), range(6))
        )
    assert [images.image(f"e:{number}")["Id"] for number in range(6)] == ids


def test_what_needs_an_engine_says_so(images) -> None:
    """Building, packing and pushing are an engine's; the message says what to do."""
    request = BuildRequest(iter(()), TAG, ())
    for act in (lambda: images.build(request, print), lambda: images.save(TAG), lambda: images.push(TAG, "x", None)):
        with pytest.raises(UsageError, match="by a Docker engine, and none listens here"):
            act()


def test_the_record_of_an_image_is_json(images, layer) -> None:
    """Whoever looks into the folder can read what is there."""
    identity = images.load(config_of(layer), [layer], TAG)
    record = json.loads((images.folder / identity.removeprefix("sha256:") / "image.json").read_text())
    assert read_image_config(record)[1] == []
    assert record["LayerSizes"] == [layer.size]
