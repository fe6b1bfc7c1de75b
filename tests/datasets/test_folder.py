"""Pictures in a folder or a zip with label.txt (B6, C1), read with suspicion (C2)."""

import hashlib
import io
import os
import struct
import warnings
import zipfile
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from pydantic import ValidationError

from orchestrator.errors import Rejected

REMEDY = "give the path of a folder or a zip, relative to the contest file"
NO_LABELS = "put a label.txt beside images/, or the pictures of each class into a folder of its name"


def encoded(array, kind="PNG", **options):
    """Returns an array as the bytes of a picture."""
    out = io.BytesIO()
    Image.fromarray(array).save(out, kind, **options)
    return out.getvalue()


def png(width, height, depth=8, colour=0):
    """Returns a PNG that claims a size and holds no pixels."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_pictures_come_in_the_order_of_the_labels(load, put, picture):
    """The order is label.txt's, not the names'; grey pictures are [n, 1, h, w]."""
    path = put("b.png 1\na.png 0\n", {"a.png": picture(10), "b.png": picture(20)})
    samples = load("folder", path=path)
    assert (samples.pixels.dtype, samples.pixels.shape) == (np.uint8, (2, 1, 3, 4))
    assert samples.pixels[:, 0, 0, 0].tolist() == [20, 10]
    assert (samples.labels.tolist(), samples.classes) == ([1, 0], ("0", "1"))


@pytest.fixture(params=["folder", "zip"])
def put_files(request, tmp_path):
    """Puts files into a folder or a zip, by their paths, and returns its name."""

    def store(files):
        if request.param == "zip":
            with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
                archive.mkdir("empty")
                for name, data in files.items():
                    archive.writestr(name, data)
            return "set.zip"
        for name, data in files.items():
            (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "set" / name).write_bytes(data)
        return "set"

    return store


def test_folders_can_be_the_classes(load, put_files, picture):
    """Without label.txt classes take turns, each in the order of its names; what is hidden or deeper is passed over."""
    named = {"bird/b.png": 1, "bird/a.png": 2, "bird/c.png": 3, "bicycle/x.png": 4}
    others = {"bird/.DS_Store": b"", "README": b"", ".git/a.png": b"", "__MACOSX/a.png": b"", "bird/more/d.png": b""}
    path = put_files({name: picture(value) for name, value in named.items()} | others)
    samples = load("folder", path=path)
    assert samples.classes == ("bicycle", "bird")
    assert samples.labels.tolist() == [0, 1, 1, 1]
    assert samples.pixels[:, 0, 0, 0].tolist() == [4, 2, 1, 3]
    assert load("folder", path=path, classes=["bird", "bicycle"]).labels.tolist() == [1, 0, 0, 0]


def test_a_folder_that_is_no_class_is_named(problems, put_files, picture):
    """So is a file in a class's folder that is no picture, as where label.txt lists them."""
    path = put_files({"bird/0.png": picture(), "tricycle/0.png": picture(), "bird/1.png": b"no picture"})
    found = problems("folder", path=path, classes=["bicycle", "bird"])
    assert found[0] == "tricycle/: unknown class 'tricycle'; use one of bicycle, bird"
    assert found[1].startswith("bird/: bird/1.png: cannot identify")


def test_pictures_without_labels_are_no_class(problems, put_files, picture):
    """A folder `images` whose label.txt is missing is not taken for a class of that name."""
    assert problems("folder", path=put_files({"images/0.png": picture()}))[0].endswith(NO_LABELS)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM"])
@pytest.mark.parametrize("height", [1, 3, 5])
def test_lossless_pictures_are_exact(load, put, kind, height):
    """Every value of a colour picture arrives as it was stored, at its channel, row and column, at any height."""
    array = np.random.default_rng(0).integers(0, 256, (2, height, 4, 3), np.uint8)
    path = put("0.x 0\n1.x 1\n", {f"{n}.x": encoded(array[n], kind) for n in range(2)})
    assert np.array_equal(load("folder", path=path).pixels, np.moveaxis(array, 3, 1))


def test_classes_can_be_words(load, put, picture):
    """Words become classes in alphabetical order, or in the order that the contest file gives."""
    path = put("0.png dog\n1.png cat\n", {"0.png": picture(), "1.png": picture()})
    assert load("folder", path=path).classes == ("cat", "dog")
    assert load("folder", path=path).labels.tolist() == [1, 0]
    assert load("folder", path=path, classes=["dog", "owl", "cat"]).labels.tolist() == [0, 2]


def test_numbers_index_the_named_classes(load, put, picture):
    """With class names in the contest file a number in label.txt is an index."""
    path = put("0.png 1\n1.png 00\n", {"0.png": picture(), "1.png": picture()})
    assert load("folder", path=path, classes=["cat", "dog"]).labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    "text",
    [
        b"0.png 0\r\n1.png 1\r\n",
        b"\xef\xbb\xbf0.png 0\n1.png 1\n",
        b"\xef\xbb\xbf0.png 0\r\n\r\n1.png 1",
        b"\n  0.png 0  \n\n1.png    1\n\n",
        b"0.png\t0\n1.png \t1\n",
    ],
)
def test_label_files_of_other_systems_are_read(load, put, picture, text):
    """CRLF, a byte order mark, tabs, empty lines and more spaces than one make no difference."""
    path = put(text, {"0.png": picture(), "1.png": picture()})
    assert load("folder", path=path).labels.tolist() == [0, 1]


def test_a_name_may_hold_spaces(load, put, picture):
    """The class is the last word of a line."""
    path = put("my dog.png 0\n", {"my dog.png": picture()})
    assert len(load("folder", path=path)) == 1


def test_the_first_picture_sets_the_mode(load, put, picture):
    """In mode `auto` later pictures are converted to the first one's channels; `L` and `RGB` force them."""
    pictures = {"0.png": picture(7), "1.png": picture(8, mode="RGB")}
    path = put("0.png 0\n1.png 1\n", pictures)
    assert load("folder", path=path).shape == (1, 3, 4)
    assert load("folder", path=path, mode="RGB").pixels[:, :, 0, 0].tolist() == [[7] * 3, [8] * 3]


def test_pictures_that_are_not_listed_are_not_read(load, put, picture):
    """Only the names in label.txt are opened."""
    path = put("0.png 0\n", {"0.png": picture(), "virus.exe": b"MZ", "broken.png": b"x"})
    assert len(load("folder", path=path)) == 1


def test_everything_that_is_wrong_is_named_at_once(problems, put, picture):
    """Missing, broken, wrong-sized, doubled, unknown and misplaced pictures each get their line."""
    text = "0.png 0\nmissing.png 1\n1.png 1\n0.png 1\n2.png 1\n../label.txt 1\n3.png seven\nword\n"
    pictures = {"0.png": picture(), "1.png": b"no picture", "2.png": picture(size=(5, 3)), "3.png": picture()}
    path = put(text, pictures)
    found = problems("folder", path=path, classes=["zero", "one"])
    assert [problem.split(":")[0] for problem in found] == [f"label.txt line {n}" for n in (4, 6, 8, 2, 3, 5, 7)]
    assert found[0] == "label.txt line 4: '0.png' is listed twice; list each picture once"
    assert "is not `name class`; write `0.png 7`" in found[1]
    assert found[3].startswith("label.txt line 2: images/missing.png: ")
    assert "cannot identify image file" in found[4]
    assert found[5].endswith("images/2.png is (3, 5), the first is (3, 4); make all pictures the same size")
    assert found[6] == "label.txt line 7: unknown class 'seven'; use one of zero, one"


def test_many_problems_are_counted(problems, put):
    """Twenty problems are listed and the others counted."""
    path = put("".join(f"{n}.png 0\n" for n in range(100)), {})
    found = problems("folder", path=path)
    assert (len(found), found[-1]) == (21, "label.txt: and 80 more problems")


@pytest.mark.parametrize(
    "name",
    ["../0.png", "/etc/passwd", "sub/0.png", ".hidden", "..", ".", "images/0.png", "a/../0.png", "0.png/"],
)
def test_a_name_is_never_a_path(problems, put, picture, name):
    """Names that leave the folder of pictures, or hide in it, are refused before anything is opened."""
    path = put(f"{name} 0\n", {"0.png": picture()})
    [problem] = problems("folder", path=path)
    assert problem.startswith("label.txt line 1: ")
    assert "is not `name class`" in problem


@pytest.mark.parametrize("name", ["a\0b.png", "x" * 60_000, "\x1b[2J.png", "..\\0.png", "C:\\0.png"])
def test_odd_names_are_only_missing(problems, put, picture, name):
    """A name with NUL, control characters or endless length is shown escaped and cut, and opens nothing."""
    path = put(f"{name} 0\n", {"0.png": picture()})
    [problem] = problems("folder", path=path)
    assert problem.isprintable()
    assert len(problem) < 800


def test_a_zip_may_hold_huge_names(load, problems, tmp_path, picture):
    """Names of the longest length a zip can hold are no trouble, listed or not."""
    name = "x" * 65_000
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        archive.writestr("label.txt", f"{name} 0\n")
        archive.writestr(f"images/{name}", picture())
        archive.writestr(f"images/{'y' * 65_000}", b"")
    assert len(load("folder", path="set.zip")) == 1


@pytest.fixture
def bare(tmp_path):
    """A folder that lists one picture and holds none."""
    (tmp_path / "set" / "images").mkdir(parents=True)
    (tmp_path / "set" / "label.txt").write_text("0.png 0\n")
    return tmp_path / "set"


def test_a_link_in_a_folder_is_not_followed(problems, bare, tmp_path, picture):
    """A symbolic link in place of a picture, or of label.txt, is refused even where it leads to a good file."""
    (tmp_path / "good.png").write_bytes(picture())
    (bare / "images" / "0.png").symlink_to(tmp_path / "good.png")
    assert problems("folder", path="set") == [
        "label.txt line 1: images/0.png: not a regular file; replace or remove it"
    ]
    (bare / "label.txt").rename(tmp_path / "label.txt")
    (bare / "label.txt").symlink_to(tmp_path / "label.txt")
    assert problems("folder", path="set") == [f"label.txt: not a regular file; {NO_LABELS}"]


def test_a_link_in_a_zip_is_its_own_text(problems, tmp_path):
    """A symbolic link in a zip is never resolved: its bytes are no picture."""
    link = zipfile.ZipInfo("images/0.png")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        archive.writestr("label.txt", "0.png 0\n")
        archive.writestr(link, "/etc/passwd")
    [problem] = problems("folder", path="set.zip")
    assert "cannot identify image file" in problem


def test_a_fifo_does_not_block(problems, bare):
    """A pipe in place of a picture is refused and never opened."""
    os.mkfifo(bare / "images" / "0.png")
    assert problems("folder", path="set") == [
        "label.txt line 1: images/0.png: not a regular file; replace or remove it"
    ]


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ((4097, 1), "4097 x 1 pixels, at most 4096 a side"),
        ((1, 4097), "1 x 4097 pixels, at most 4096 a side"),
        ((10_000, 10_000), "(100000000 pixels) exceeds limit"),
        ((20_000, 20_000), "(400000000 pixels) exceeds limit"),
        ((2**31 - 1, 2**31 - 1), "exceeds limit"),
    ],
)
def test_a_picture_that_claims_to_be_huge_is_not_decoded(problems, put, size, reason):
    """Sides beyond 4096 are refused by the header, also where Pillow would only warn of a bomb."""
    path = put("0.png 0\n", {"0.png": png(*size)})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        [problem] = problems("folder", path=path)
    assert seen == []
    assert problem.startswith("label.txt line 1: images/0.png: ")
    assert reason in problem


def test_a_file_that_unpacks_without_end_is_cut_off(problems, put, picture):
    """A picture of more than 32 MiB is refused; packed in a zip that takes 32 KiB."""
    bomb = b"\0" * (32 * 1024**2 + 1)
    path = put("0.png 0\n1.png 0\n", {"0.png": bomb, "1.png": picture()})
    [problem] = problems("folder", path=path)
    assert problem.startswith("label.txt line 1: images/0.png: ")
    assert "33554432" in problem


def test_an_endless_label_file_is_refused(problems, put):
    """label.txt is read under the same limit."""
    path = put(b" " * (32 * 1024**2 + 1), {})
    [problem] = problems("folder", path=path)
    assert problem.startswith("label.txt: ")
    assert "33554432" in problem


def test_pictures_that_fill_the_memory_are_refused(problems, tmp_path):
    """The first picture tells how much all of them take: 4 GiB decoded is the most."""
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        archive.writestr("label.txt", "".join(f"{n}.png 0\n" for n in range(86)))
        archive.writestr("images/0.png", encoded(np.zeros((4096, 4096, 3), np.uint8), compress_level=1))
    [problem] = problems("folder", path="set.zip")
    assert problem == (
        "label.txt: 86 pictures of 50331648 bytes, at most 4294967296 bytes in all; use fewer or smaller pictures"
    )


@pytest.mark.parametrize("text", ["", "\n \n", None, b"\xff\xfe0\x00"])
def test_a_set_without_labels_is_refused(problems, put, picture, text):
    """An empty, missing or undecodable label.txt is a problem of its own."""
    path = put(text, {"0.png": picture()})
    [problem] = problems("folder", path=path)
    assert problem.startswith("label.txt: ")


@pytest.mark.parametrize("label", ["²", "٣", "9" * 5000, "100000", "-1", "1.5", "2", "0x1"])
def test_a_number_is_at_most_five_plain_digits(problems, put, picture, label):
    """Digits of other scripts, signs, fractions and endless numbers are words, and no class of two."""
    path = put(f"0.png {label}\n", {"0.png": picture()})
    [problem] = problems("folder", path=path, classes=["cat", "dog"])
    assert "unknown class" in problem
    assert len(problem) < 500


@pytest.mark.parametrize("label", ["²", "9" * 5000])
def test_odd_words_are_class_names(load, put, picture, label):
    """Without class names in the contest file every other word names a class."""
    path = put(f"0.png {label}\n1.png 3\n", {"0.png": picture(), "1.png": picture()})
    assert set(load("folder", path=path).classes) == {label, "3"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cannot identify"),
        (b"GIF89a", "cannot identify"),
        (encoded(np.zeros((4, 4), np.uint8), "GIF"), "cannot identify"),
        (encoded(np.zeros((4, 4), np.uint8), "TIFF"), "cannot identify"),
        (encoded(np.zeros((40, 40), np.uint8))[:-30], "truncated"),
        (encoded(np.zeros((40, 40), np.uint8), "JPEG")[:200], ""),
        (png(4, 4), ""),
        (b"<svg/>", "cannot identify"),
    ],
)
def test_what_is_no_picture_is_named(problems, put, data, reason):
    """Empty, cut off, foreign and vector files are refused, and only PNG, JPEG, BMP and PPM are tried."""
    path = put("0.png 0\n", {"0.png": data})
    [problem] = problems("folder", path=path)
    assert problem.startswith("label.txt line 1: images/0.png: ")
    assert reason in problem


@pytest.mark.parametrize("mode", ["CMYK", "HSV", "", "rgb", 3])
def test_a_mode_is_grey_or_colour(load, mode):
    """Only `auto`, `L` and `RGB` are modes: others would mix pictures of different channels."""
    with pytest.raises(ValidationError):
        load("folder", path="set", mode=mode)


def test_a_missing_path_is_named(problems, tmp_path):
    """The problem names the path, and the remedy what was expected."""
    [problem] = problems("folder", path="nowhere")
    assert problem == f"{tmp_path}/nowhere: [Errno 2] No such file or directory: '{tmp_path}/nowhere'; {REMEDY}"


def test_a_file_that_is_no_zip_is_named(problems, tmp_path):
    """Any other file in place of a zip is one problem."""
    (tmp_path / "set.zip").write_bytes(b"PK\x03\x04 and no more")
    assert problems("folder", path="set.zip") == [f"{tmp_path}/set.zip: File is not a zip file; {REMEDY}"]


def test_an_encrypted_zip_is_refused(problems, tmp_path, picture):
    """A member that wants a password is named; nobody is asked for one."""
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        archive.writestr("label.txt", "0.png 0\n")
        archive.writestr("images/0.png", picture())
    data = bytearray((tmp_path / "set.zip").read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        second = data.index(mark, data.index(mark) + 1)
        data[second + offset] |= 1
    (tmp_path / "set.zip").write_bytes(data)
    [problem] = problems("folder", path="set.zip")
    assert "images/0.png: File 'images/0.png' is encrypted, password required" in problem


PACKED = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@pytest.mark.parametrize("packing", PACKED)
@FUZZ
@given(data=st.data())
def test_a_damaged_zip_is_read_or_refused(load, tmp_path, picture, packing, data):
    """Whatever bytes change or are missing, the answer is samples or a refusal, and no other error."""
    path = tmp_path / "set.zip"
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("label.txt", "0.png 0\n1.png 1\n")
        for name in ("0", "1"):
            archive.writestr(f"images/{name}.png", picture())
    body = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(body)
    with suppress(Rejected):
        assert load("folder", path="set.zip").pixels.dtype == np.uint8


RANDOM = np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "PPM"])
@FUZZ
@given(data=st.data())
def test_a_damaged_picture_is_read_or_refused(load, tmp_path, kind, data):
    """Whatever bytes of a picture change, the answer is samples or a refusal, and no other error or warning."""
    body = bytearray(encoded(RANDOM, kind))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "set" / "images").mkdir(parents=True, exist_ok=True)
    (tmp_path / "set" / "label.txt").write_text("0.x 0\n")
    (tmp_path / "set" / "images" / "0.x").write_bytes(body)
    with suppress(Rejected):
        assert load("folder", path="set").pixels.dtype == np.uint8


def test_a_png_with_a_broken_chunk_is_named(problems, put):
    """Pillow raises a SyntaxError where pixels should go on and no chunk begins; it is a problem of that picture."""
    body = bytearray(encoded(RANDOM))
    at = body.index(b"IDAT")
    body[at - 4 : at] = (100).to_bytes(4, "big")
    path = put("0.png 0\n", {"0.png": bytes(body)})
    [problem] = problems("folder", path=path)
    assert problem.startswith("label.txt line 1: images/0.png: broken PNG file (chunk ")


@pytest.mark.data
def test_the_published_pictures_are_read(load, shared_data):
    """500 CIFAR-10 pictures, 50 a class, decode to the pixels whose hash is published beside them (C1)."""
    samples = load("folder", path=str(shared_data / "cifar10" / "test500.zip"))
    assert (samples.pixels.shape, samples.classes) == ((500, 3, 32, 32), tuple("0123456789"))
    assert np.bincount(samples.labels).tolist() == [50] * 10
    stated = (shared_data / "cifar10" / "README.md").read_text().split("in index order:\n")[1].split()[0]
    assert hashlib.sha256(np.moveaxis(samples.pixels, 1, 3).tobytes()).hexdigest() == stated


@pytest.mark.data
def test_the_same_pictures_come_from_an_archive(load, shared_data):
    """1000 CIFAR-10 pictures of [n, h, w, 3] load from .npz with their labels."""
    path = shared_data / "cifar10" / "eval1000.npz"
    samples = load("npz", path=str(path))
    with np.load(path) as arrays:
        assert np.array_equal(samples.pixels, np.moveaxis(arrays["images"], 3, 1))
        assert np.array_equal(samples.labels, arrays["labels"])
