"""The file system that layers make together: whiteouts, folders over files, names of one file, and what is left out."""

import hashlib
import io
import tarfile

import pytest

from orchestrator.errors import Rejected
from orchestrator.sandboxes.base import ImageLayer
from orchestrator.sandboxes.image_files import layers
from orchestrator.sandboxes.image_files.flatten import FlattenedImage


def tar_of(*members, mtime: int = 1000) -> bytes:
    """Returns a tar of members: a name and its bytes, `-> target`, `= name` for a hard link, or None for a folder."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.mtime, entry.mode, data = mtime, 0o644, b""
            if content is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o750
            elif isinstance(content, bytes):
                data = content
            elif content in {"fifo", "device"}:
                entry.type = tarfile.FIFOTYPE if content == "fifo" else tarfile.CHRTYPE
            else:
                kind, _, entry.linkname = content.partition(" ")
                entry.type = {"->": tarfile.SYMTYPE, "=": tarfile.LNKTYPE}[kind]
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def layer_of(data: bytes, *, digest: str = "") -> ImageLayer:
    """Returns a layer whose bytes come in small pieces."""
    name = digest or f"sha256:{hashlib.sha256(data).hexdigest()}"
    return ImageLayer(name, len(data), lambda: (data[at : at + 700] for at in range(0, len(data), 700)))


def flattened(*layers: bytes, image: FlattenedImage | None = None) -> dict[str, object]:
    """Returns what lies in an image, or in one of these layers: bytes, where a link leads, None for a folder."""
    image = image or FlattenedImage([layer_of(each) for each in layers])
    found: dict[str, object] = {}
    with tarfile.open(fileobj=io.BytesIO(b"".join(image.tar_pieces()))) as tar:
        for member in tar:
            assert member.name not in found
            if member.issym():
                found[member.name] = f"-> {member.linkname}"
            elif member.islnk():
                found[member.name] = ("also", member.linkname, found[member.linkname])
            else:
                file = tar.extractfile(member)
                found[member.name] = None if file is None else file.read()
    return found


def test_a_higher_layer_counts() -> None:
    """What is at a path in a higher layer takes the place of what was there, whatever that was."""
    lower = tar_of(("a", None), ("a/old", b"1"), ("a/kept", b"2"), ("b", b"3"), ("c", None), ("c/in", b"4"))
    upper = tar_of(("a/old", b"new"), ("b", None), ("b/in", b"5"), ("c", b"6"), ("d", "-> a"))
    assert flattened(lower, upper) == {
        "a": None, "a/old": b"new", "a/kept": b"2", "b": None, "b/in": b"5", "c": b"6", "d": "-> a",
    }  # fmt: skip


def test_whiteouts_remove_what_is_below_and_nothing_of_their_own_layer() -> None:
    """Wherever in the layer they stand; a folder goes with all that is in it."""
    lower = tar_of(("a", None), ("a/x", b"1"), ("a/y", b"2"), ("b", None), ("b/deep", None), ("b/deep/z", b"3"))
    upper = tar_of(("a/new", b"4"), ("a/.wh..wh..opq", b""), ("b/.wh.deep", b""), ("c/.wh.nothing", b""))
    assert flattened(lower, upper) == {"a": None, "a/new": b"4", "b": None, "c": None}
    again = tar_of(("b/deep", b"a file now"), ("b/.wh.deep", b""))
    assert flattened(lower, upper, again)["b/deep"] == b"a file now"
    assert flattened(lower, tar_of((".wh..wh..opq", b""), ("only", b"5"))) == {"only": b"5"}


def test_below_a_link_a_folder_takes_its_place() -> None:
    """As in an overlay: a layer that has `lib/x` has a folder `lib`, and follows no link of the layers below."""
    assert flattened(tar_of(("lib", "-> usr/lib")), tar_of(("lib/x", b"1"))) == {"lib": None, "lib/x": b"1"}


def test_names_of_one_file_stay_its_names() -> None:
    """Where the first name is gone or is another file, the bytes are under the next."""
    lower = tar_of(("a", b"data"), ("b", "= a"), ("c", "= b"))
    assert flattened(lower) == {"a": b"data", "b": ("also", "a", b"data"), "c": ("also", "a", b"data")}
    upper = tar_of((".wh.a", b""))
    assert flattened(lower, upper) == {"b": b"data", "c": ("also", "b", b"data")}
    assert flattened(lower, tar_of(("a", b"other"), (".wh.b", b""))) == {"a": b"other", "c": b"data"}


def test_a_name_of_a_link_is_a_link() -> None:
    """A symbolic link may have a second name, too."""
    assert flattened(tar_of(("a", "-> x"), ("b", "= a"))) == {"a": "-> x", "b": "-> x"}


def test_permissions_and_times_are_kept_and_owners_are_not() -> None:
    """Python goes by a source file's time when it decides whether compiled code is still good."""
    image = FlattenedImage([layer_of(tar_of(("a", b"x"), ("f", None), mtime=1_700_000_000))])
    with tarfile.open(fileobj=io.BytesIO(b"".join(image.tar_pieces()))) as tar:
        described = {m.name: (m.mode, m.mtime, m.uid, m.gid) for m in tar}
    assert described == {"a": (0o644, 1_700_000_000, 0, 0), "f": (0o750, 1_700_000_000, 0, 0)}


def test_devices_and_pipes_are_left_out() -> None:
    """A sandbox has its own."""
    assert flattened(tar_of(("dev/null", "device"), ("pipe", "fifo"), ("a", b"1"))) == {"a": b"1"}


def test_long_and_odd_names_arrive() -> None:
    """Names are bytes: longer than a header's field, and in no encoding."""
    name = "x" * 90 + "/" + "y" * 200 + "\udcff"
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = 1
        tar.addfile(entry, io.BytesIO(b"1"))
    assert flattened(made.getvalue())[name] == b"1"


def test_what_a_container_needs_is_made_where_it_is_missing() -> None:
    """What is there stays as it is: it is judged, and not mended."""
    image = FlattenedImage(
        [layer_of(tar_of(("etc", None), ("etc/hosts", b"mine"), ("run", b"a file"), ("tmp", "-> x")))]
    )
    for path in ("/", "/etc", "/work/deep", "/run", "/run/below", "/tmp"):  # noqa: S108  the image's own
        image.add_folder(path)
    image.add_file("/etc/hosts")
    image.add_file("/etc/none")
    assert flattened(image=image) == {
        "etc": None, "etc/hosts": b"mine", "etc/none": b"", "run": b"a file", "tmp": "-> x",
        "work": None, "work/deep": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"no tar" * 1000, "number is none"),
        (tar_of(("a", "= none")), "hard link to no file before it"),
        (tar_of(("a", None), ("b", "= a")), "hard link to no file before it"),
        (tar_of(("a", b"x" * 5000))[:1024], "ends inside a file"),
        (tar_of(("a", "-> " + "x/" * 2048)), "a link whose target has 4096 bytes, at most 4095"),
    ],
)
def test_what_is_no_layer_is_refused(data, what) -> None:
    """With the layer and what is wrong."""
    with pytest.raises(Rejected, match=what) as caught:
        FlattenedImage([layer_of(tar_of(("x", b""))), layer_of(data)])
    assert caught.value.problems[0].place == "layer 2"


def test_the_memory_for_names_is_bounded(monkeypatch) -> None:
    """Layers that are packed to little may have many long names and targets: those of all layers count together."""
    monkeypatch.setattr(layers, "MAX_PATH_BYTES", 100_000)
    names = [layer_of(tar_of(*((f"{side}{number}", "-> " + "x" * 4000) for number in range(12)))) for side in "ab"]
    assert len(flattened(image=FlattenedImage(names[:1]))) == 12
    with pytest.raises(Rejected, match="names take more than 100000 bytes") as caught:
        FlattenedImage(names)
    assert caught.value.problems[0].place == "layer 2"


def test_a_layer_that_is_another_is_refused() -> None:
    """Its bytes are compared with its digest each time that it is read."""
    good, other = tar_of(("a", b"1")), tar_of(("a", b"2"))
    with pytest.raises(Rejected, match="its digest is not"):
        FlattenedImage([layer_of(other, digest=layer_of(good).diff_id)])
    served = [good, other]
    image = FlattenedImage([ImageLayer(layer_of(good).diff_id, len(good), lambda: iter([served.pop(0)]))])
    with pytest.raises(Rejected, match="its digest is not"):
        list(image.tar_pieces())
