"""The files of an image that somebody else pushed: judged by its layers as an engine's image is, and fetched once."""

import gzip
import tarfile

import pytest

from orchestrator.errors import BackendUnavailable, Problem, Rejected
from orchestrator.executors.kubernetes import image_files
from orchestrator.executors.kubernetes.registry_backend import RegistryBackend
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.sandboxes.base import ImageSource
from orchestrator.sandboxes.image_files import layers, mount_points
from tests.oci.fake_registry import LAYER, RUN, Answer, folder, link, member, tar

NAME = "teams/entry"


@pytest.fixture
def backend(registry, ask) -> RegistryBackend:
    """The backend of a cluster whose images lie in that registry."""
    return RegistryBackend(ClusterSettings(registry=f"{registry.host}/teams"), registries=ask)


@pytest.fixture
def judged(registry, backend):
    """Returns a function that puts an image of these layers, the lowest first, and returns why it is refused."""

    def judge(*layers: bytes, kind: str = LAYER, config=RUN) -> list[Problem]:
        registry.put(NAME, "1", registry.playable(config, *layers, kind=kind))
        try:
            backend.admit(ImageSource(image="entry:1"))
        except Rejected as error:
            return list(error.problems)
        return []

    return judge


def places(problems: list[Problem]) -> list[str]:
    """Returns where something is wrong."""
    return [problem.place for problem in problems]


@pytest.mark.parametrize(
    ("layer", "place"),
    [
        (tar(link("io", "/var/tmp")), "/io"),  # noqa: S108  the image's own
        (tar(link("tmp", "/var/tmp")), "/tmp"),  # noqa: S108
        (tar(folder("dev"), link("dev/shm", "/x")), "/dev/shm"),  # noqa: S108
        (tar(link("./dev", "/x")), "/dev"),
        (tar(link("../sys", "/x")), "/sys"),
        (tar(link("/proc", "/x")), "/proc"),
        (tar(member("run")), "/run"),
        (tar(member("etc/hosts", tarfile.FIFOTYPE)), "/etc/hosts"),
        (tar(folder("etc/passwd")), "/etc/passwd"),
        (tar(member("etc/group", size=layers.MAX_FILE_BYTES + 1)), "/etc/group"),
        (tar(link("x", "/y"), member("io", tarfile.LNKTYPE, "x")), "/io"),
        (tar(link("player", "/srv")), "WORKDIR"),
        (tar(member("usr/bin/python3", mode=0o644)), "ENTRYPOINT"),
        (tar(folder("usr/bin"), member("usr/bin/.wh.python3")), "ENTRYPOINT"),
        (tar(member("usr/.wh..wh..opq")), "ENTRYPOINT"),
        (tar(member(f"{'d' * 99}/../../io", tarfile.SYMTYPE, "/x")), "/io"),
    ],
)
def test_what_is_in_the_way_is_refused(judged, layer, place):
    """Item 28: a link where a sandbox mounts, a linked working directory, a program that a layer took away."""
    assert places(judged(layer)) == [place]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_ordinary_images_are_admitted(judged, form):
    """Folders where something is mounted, and what a higher layer mends; in every form of archive."""
    assert judged(tar(folder("io"), folder("tmp"), member("etc/passwd", size=700), form=form)) == []
    assert judged(tar(link("io", "/x"), form=form), tar(folder("io"), form=form)) == []
    assert judged(tar(link("io", "/x"), form=form), tar(member(".wh.io"), form=form)) == []
    assert judged(tar(link("dev/shm", "/x"), form=form), tar(member("dev/.wh..wh..opq"), form=form)) == []
    assert judged(tar(folder("io"), form=form), tar(link("io", "/x"), form=form)) != []


def test_long_paths_and_targets_are_whole(judged):
    """Names beyond a header's hundred bytes count in both extensions."""
    deep = "/".join("d" * 60 for _ in range(4))
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        layer = tar(member(f"{deep}/run", size=3), link("usr/bin/run", f"/{deep}/run"), form=form)
        assert judged(layer, config={**RUN, "Entrypoint": ["run"]}) == []
        assert places(judged(layer, tar(member(f"{deep}/.wh.run")), config={**RUN, "Entrypoint": ["run"]})) == [
            "ENTRYPOINT"
        ]


def in_parts(data: bytes) -> bytes:
    """Returns data in some thirty parts of gzip."""
    size = len(data) // 30 + 1
    return b"".join(gzip.compress(data[start : start + size]) for start in range(0, len(data), size))


@pytest.mark.slow
@pytest.mark.parametrize("pack", [gzip.compress, in_parts])
@pytest.mark.parametrize(
    "kind",
    [
        f"{LAYER}+gzip",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/vnd.docker.image.rootfs.diff.tar",
    ],
)
def test_packed_layers_are_read(judged, pack, kind):
    """In one part of gzip or many, named so or told by their first bytes, as runtimes do."""
    assert places(judged(pack(tar(link("io", "/x"))), kind=kind)) == ["/io"]
    assert judged(pack(tar(folder("io"), member("big", size=3_000_000))), kind=kind) == []
    assert places(judged(pack(tar(member("big", size=3_000_000), link("io", "/x"))), kind=kind)) == ["/io"]


def test_a_plain_layer_is_never_unpacked(judged):
    """Runtimes read this type as it is, even where a first name looks like gzip."""
    name = "\x1f\udc8b\x08"
    layer = tar(member(name), link("io", "/x"), form=tarfile.GNU_FORMAT)
    assert layer.startswith(b"\x1f\x8b\x08")
    assert places(judged(layer)) == ["/io"]


@pytest.mark.parametrize(
    ("data", "kind"), [(b"\x28\xb5\x2f\xfd" + bytes(600), f"{LAYER}+gzip"), (b"x", f"{LAYER}+zstd")]
)
def test_zstd_is_refused_with_a_remedy(judged, data, kind):
    """It is not read here, and what to do is said."""
    [problem] = judged(data, kind=kind)
    assert problem.place == "layer 2"
    assert "zstd" in problem.what
    assert "gzip" in problem.remedy


def twice(first: tarfile.TarInfo, **records: str) -> bytes:
    """Returns an archive of a member whose name is said by both kinds of extension."""
    head = tarfile.TarInfo("././@LongLink")
    head.type, said = tarfile.GNUTYPE_LONGNAME, b"srv\0"
    head.size = len(said)
    first.pax_headers = records
    return head.tobuf(tarfile.GNU_FORMAT) + said + bytes(512 - len(said)) + tar(first)


def dated(name: str, target: str) -> bytes:
    """Returns an archive of a link in GNU's form, with times where others have the beginning of the name."""
    header = bytearray(link(name, target).tobuf(tarfile.GNU_FORMAT))
    header[345:356] = b"14000000000"
    header[148:156] = b" " * 8
    header[148:155] = b"%06o\0" % sum(header)
    return bytes(header) + bytes(1024)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (b"layer 1, which is none", ""),
        (b"\xff" * 2048, "no archive"),
        (tar(member("a", size=9000))[:700], "inside a file"),
        (tar(link("x", "/"), link("x/io", "/y")), "/x is a symbolic link, and has more below it"),
        (tar(folder("io"), link("io", "/y")), "/io is there twice"),
        (tar(link("io", "/y"), folder("io")), "/io is there twice"),
        (tar(member("io", tarfile.LNKTYPE, "nothing")), "hard link to no file"),
        (tar(member("x", b"S")), "unknown type"),
        (twice(link("x", "/y"), path="io"), "different paths"),
        (dated("io", "/y"), "GNU header with times"),
        (tar(member(".wh.")), "whiteout of no name"),
        (tar(member("d" * 5000)), "5000 bytes"),
        (tar(link("x", "x/" * 2048)), "target has 4096 bytes"),
        (gzip.compress(tar(link("io", "/x")))[:60], "ends before"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(judged, layer, words):
    """What is no layer, and what another reader would take for other files: where it is and why."""
    problems = judged(layer, kind="application/vnd.docker.image.rootfs.diff.tar")
    if words:
        assert places(problems) == ["layer 2"]
        assert words in problems[0].what
    else:
        assert problems == []


def test_a_name_ends_at_its_first_zero(judged):
    """Programs in C and in Go read no further; what is behind it hides nothing."""
    header = bytearray(link("io", "/y").tobuf(tarfile.USTAR_FORMAT))
    header[10:20] = b"harmless!!"
    header[148:156] = b" " * 8
    header[148:155] = b"%06o\0" % sum(header)
    assert places(judged(bytes(header) + bytes(1024))) == ["/io"]


def test_bytes_and_paths_are_bounded(judged, monkeypatch):
    """An image is refused that holds more than it may when it is unpacked, however small it is packed."""
    monkeypatch.setattr(image_files, "MAX_IMAGE_BYTES", 2_000_000)
    bomb = gzip.compress(tar(member("big", size=2_000_001)))
    assert len(bomb) < 20_000
    [problem] = judged(bomb, kind=f"{LAYER}+gzip")
    assert (problem.place, "more than 2000000 bytes" in problem.what) == ("size", True)
    many = [gzip.compress(tar(member(f"big{number}", size=700_000))) for number in range(3)]
    assert places(judged(*many, kind=f"{LAYER}+gzip")) == ["size"]
    monkeypatch.setattr(layers, "MAX_PATH_BYTES", 20_000)
    monkeypatch.setattr(layers.RemainingBytes, "__init__", _room)
    assert places(judged(tar(*(member(f"f{number}") for number in range(200))))) == ["size"]
    assert places(judged(tar(*(link(f"f{number}", "x" * 2000) for number in range(20))))) == ["size"]


@pytest.mark.parametrize(
    "again",
    [
        member("file"),
        folder("./"),
        member(".wh..wh.plnk"),
        member(".wh.gone"),
    ],
)
def test_what_is_said_again_counts(judged, monkeypatch, again):
    """A layer of few names may say them any number of times, packed to a few bytes each."""
    monkeypatch.setattr(layers, "MAX_PATH_BYTES", 20_000)
    monkeypatch.setattr(layers.RemainingBytes, "__init__", _room)
    assert judged(tar(*[again] * 20)) == []
    assert places(judged(tar(*[again] * 100))) == ["size"]


@pytest.mark.parametrize("kind", [tarfile.CONTTYPE, tarfile.REGTYPE])
@pytest.mark.parametrize("name", ["file", ".wh..wh.file", "./"])
def test_all_content_counts(judged, monkeypatch, kind, name):
    """Also what no file of the image gets: it is unpacked to be passed over."""
    monkeypatch.setattr(image_files, "MAX_IMAGE_BYTES", 2_000_000)
    each = member(name, kind, size=700_000)
    assert places(judged(tar(each), tar(each), tar(each))) == ["size"]


def test_the_folders_above_are_added_once(judged, monkeypatch):
    """A path may have two thousand; looking at each of them again for every file takes a second for twenty files."""
    asked = []
    monkeypatch.setattr(layers, "down_to", lambda folder: asked.append(folder) or mount_points.down_to(folder))
    judged(tar(*(member(f"{'d/' * 100}f{number}") for number in range(20))))
    assert [folder.count("d") for folder in asked if folder.startswith("/d/")] == [100]


def _room(room, size: int) -> None:
    room.files, room.kept, room.heads = size, 20_000, 1000


def fetched(registry) -> list[str]:
    """Returns the digests of the blobs that were asked for."""
    return [asked.path.rpartition("/")[2] for asked in registry.asked if "/blobs/" in asked.path]


def test_a_layer_is_fetched_once(registry, backend, judged):
    """Neither an image that was judged, nor a layer that several stand on, is fetched again; a refusal is kept too."""
    common = tar(folder("srv"))
    assert judged(common) == []
    backend.admit(ImageSource(image="entry:1"))
    assert places(judged(common, tar(link("io", "/x")))) == ["/io"]
    with pytest.raises(Rejected, match="/io"):
        backend.admit(ImageSource(image="entry:1"))
    layers = [digest for digest in fetched(registry) if registry.blobs[digest][:1] != b"{"]
    assert len(layers) == len(set(layers)) == 3


def test_what_does_not_fit_is_forgotten(registry, backend, judged, monkeypatch):
    """Layers are kept as far as the memory goes that they may take."""
    monkeypatch.setattr(image_files, "_LAYER_CACHE_BYTES", 0)
    common = tar(folder("srv"))
    assert judged(common) == judged(common, tar(folder("io"))) == []
    assert fetched(registry).count(registry.blob(common, LAYER)["digest"]) == 2


def test_a_received_image_is_not_fetched_again(registry, backend):
    """The desk looked into it, and its identity says that it is the same."""
    manifest = registry.playable(RUN, tar(link("io", "/x")))
    identity = manifest["config"]["digest"]
    registry.put("teams/cup/red", identity[7:23], manifest)
    backend.admit(ImageSource(image=identity, registry_name=f"cup/red:{identity[7:23]}"))
    assert fetched(registry) == [identity]


def test_a_layer_of_other_bytes_is_refused(registry, backend, judged):
    """What was judged is what its digest says: a registry cannot show us other files than the nodes."""
    layer = tar(folder("io"))
    digest = registry.blob(layer, LAYER)["digest"]
    other = tar(folder("iO"))
    registry.odd = lambda asked: Answer(200, other) if asked.path.endswith(digest) else None
    [problem] = judged(layer)
    assert digest in problem.what
    registry.odd = lambda asked: Answer(200, layer + b"x") if asked.path.endswith(digest) else None
    [problem] = judged(layer)
    assert "more than" in problem.what


def test_a_layer_that_is_cut_short_is_asked_for_again(registry, backend, judged, slept):
    """And one that never comes whole is the registry's fault."""
    layer = tar(member("big", size=300_000), link("io", "/x"))
    digest, cuts = registry.blob(layer, LAYER)["digest"], [1]

    def cut(asked):
        if asked.path.endswith(digest) and cuts:
            cuts.pop()
            return Answer(200, layer[:200_000], {"Content-Length": str(len(layer)), "Connection": "close"})
        return None

    registry.odd = cut
    assert places(judged(layer)) == ["/io"]
    assert len(slept) == 1
    registry.odd = lambda asked: Answer(503) if asked.path.endswith(digest) else None
    fresh = RegistryBackend(ClusterSettings(registry=f"{registry.host}/teams"), registries=backend._registries)
    with pytest.raises(BackendUnavailable, match="503"):
        fresh.admit(ImageSource(image="entry:1"))
