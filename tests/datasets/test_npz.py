"""NumPy archives: good ones, and ones that are not what they say."""

import io
import struct
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.errors import Rejected

PIXELS = np.arange(2 * 2 * 4 * 3, dtype=np.uint8).reshape(2, 2, 4, 3)
LABELS = np.array([1, 0])
REMEDY = "give the path of an .npz file, relative to the contest file"


def damaged(members):
    """Returns a zip of these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def header(shape):
    """Returns the start of an array file of bytes of that shape."""
    text = repr({"descr": "|u1", "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def test_pictures_with_channels_last_are_turned(load, archive):
    """[n, h, w, 3] becomes [n, 3, h, w], u8 and contiguous, with int64 labels and numbered classes."""
    archive(images=PIXELS, labels=LABELS.astype(np.int8))
    samples = load("npz", path="set.npz")
    assert np.array_equal(samples.pixels, np.moveaxis(PIXELS, 3, 1))
    assert (samples.pixels.dtype, samples.pixels.flags.c_contiguous) == (np.uint8, True)
    assert (samples.labels.dtype, samples.labels.tolist(), samples.classes) == (np.int64, [1, 0], ("0", "1"))


@pytest.mark.parametrize("shape", [(2, 2, 6), (2, 1, 2, 6), (2, 2, 6, 1)])
def test_grey_pictures_may_lack_their_channel(load, archive, shape):
    """[n, h, w], [n, 1, h, w] and [n, h, w, 1] all become [n, 1, h, w]."""
    pixels = np.arange(24, dtype=np.uint8)
    archive(images=pixels.reshape(shape), labels=LABELS)
    assert np.array_equal(load("npz", path="set.npz").pixels, pixels.reshape(2, 1, 2, 6))


def test_channels_first_stay(load, archive):
    """[n, 3, h, w] is taken as it is."""
    pixels = np.moveaxis(PIXELS, 3, 1)
    archive(images=pixels, labels=LABELS)
    assert np.array_equal(load("npz", path="set.npz").pixels, pixels)


def test_channels_first_are_preferred(load, archive):
    """[n, 3, w, 3] could be either, and is taken for three channels."""
    pixels = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
    archive(images=pixels, labels=LABELS)
    assert np.array_equal(load("npz", path="set.npz").pixels, pixels)


def test_arrays_have_the_names_that_the_options_say(load, archive):
    """Names, classes and `first` come from the contest file."""
    archive(x=PIXELS, y=LABELS, images=np.zeros(1))
    samples = load("npz", path="set.npz", images="x", labels="y", classes=["cat", "dog", "owl"], first=1)
    assert (len(samples), samples.labels.tolist(), samples.classes) == (1, [1], ("cat", "dog", "owl"))


def test_missing_arrays_are_all_named(problems, archive):
    """Both arrays are missed at once, with what is there instead."""
    archive(x=PIXELS, y=LABELS)
    assert problems("npz", path="set.npz") == [
        "images: no such array; the archive holds x, y",
        "labels: no such array; the archive holds x, y",
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.int8])
def test_pictures_are_unsigned_bytes(problems, archive, dtype):
    """Any other type is refused with its name, and never converted."""
    archive(images=PIXELS.astype(dtype), labels=LABELS)
    assert problems("npz", path="set.npz") == [
        f"images: values are {np.dtype(dtype)}; store unsigned 8-bit values 0..255"
    ]


def test_objects_are_refused_without_unpickling(problems, archive, tmp_path):
    """An array of objects would run code when unpickled; it is refused and nothing runs."""
    trace = tmp_path / "ran"

    class Trap:
        def __reduce__(self):
            return type(trace).touch, (trace,)

    archive(images=np.array([Trap()], object), labels=LABELS)
    [problem] = problems("npz", path="set.npz")
    assert "Object arrays cannot be loaded when allow_pickle=False" in problem
    assert not trace.exists()


@pytest.mark.parametrize(
    ("pixels", "labels", "places"),
    [
        (np.zeros((2, 5, 6, 7), np.uint8), LABELS, ["images"]),
        (np.zeros((2, 5), np.uint8), LABELS, ["images"]),
        (np.uint8(3), LABELS, ["images", "labels"]),
        (np.zeros((0, 3, 4), np.uint8), np.zeros(0, int), ["images"]),
        (np.zeros((1, 1, 4097), np.uint8), np.zeros(1, int), ["images"]),
        (PIXELS, np.array([0, 1, 0]), ["labels"]),
        (PIXELS, np.int64(1), ["labels"]),
        (PIXELS, np.array([[0], [1]]), ["labels"]),
        (PIXELS, np.array([0.0, 1.0]), ["labels"]),
        (PIXELS, np.array([True, False]), ["labels"]),
        (PIXELS, np.array([-1, 1]), ["labels"]),
        (PIXELS, np.array([0, 100_000]), ["labels"]),
        (PIXELS, np.array([0, 2**64 - 1], np.uint64), ["labels"]),
        (PIXELS.astype(float), np.array(["cat", "dog"]), ["images", "labels"]),
    ],
)
def test_everything_that_is_wrong_is_named_at_once(problems, archive, pixels, labels, places):
    """Shapes, sizes, types and ranges are checked, for pictures and labels in one go."""
    archive(images=pixels, labels=labels)
    assert [problem.split(":")[0] for problem in problems("npz", path="set.npz")] == places


def test_labels_index_the_classes(problems, archive):
    """With two class names a label of 2 is out of range."""
    archive(images=PIXELS, labels=np.array([0, 2]))
    assert problems("npz", path="set.npz", classes=["a", "b"]) == [
        "labels: labels from 0 to 2; use 0 to the number of classes minus 1"
    ]


def test_a_missing_file_is_named(problems, tmp_path):
    """The problem names the path, and the remedy what was expected."""
    assert problems("npz", path="no.npz") == [
        f"{tmp_path}/no.npz: [Errno 2] No such file or directory: '{tmp_path}/no.npz'; {REMEDY}"
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not an archive",
        header((3,)) + b"abc",
        damaged({"images.npy": b"", "labels.npy": b""}),
        damaged({"images.npy": b"hello", "labels.npy": b"hello"}),
        damaged({"images.npy": header((-1,)), "labels.npy": b""}),
        damaged({"images.npy": header((10**15,)), "labels.npy": b""}),
        damaged({"images.npy": header((10**30,)), "labels.npy": b""}),
        damaged({"images.npy": header((9,)) + b"abc", "labels.npy": b""}),
    ],
)
def test_what_is_no_archive_is_refused(problems, tmp_path, data):
    """An empty file, an .npy, and members that are no arrays or claim to be huge are one problem each."""
    (tmp_path / "set.npz").write_bytes(data)
    [problem] = problems("npz", path="set.npz")
    assert problem.endswith(REMEDY)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_archive_is_read_or_refused(load, archive, data):
    """Whatever bytes change or are missing, the answer is samples or a refusal, and no other error."""
    path = archive(images=PIXELS, labels=LABELS)
    body = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(body[: data.draw(st.integers(0, len(body)) | st.just(len(body)))])
    with suppress(Rejected):
        assert load("npz", path="set.npz").pixels.dtype == np.uint8


def test_an_archive_that_unpacks_to_too_much_is_refused_unread(load, archive, monkeypatch):
    """What an array would unpack to is bounded by the archive's own word, beyond which nothing is unpacked."""
    archive(images=PIXELS, labels=LABELS)
    monkeypatch.setattr("orchestrator.datasets.npz.MAX_TOTAL_BYTES", 100)
    with pytest.raises(Rejected, match="images unpacks to 176 bytes, at most 100"):
        load("npz", path="set.npz")


def test_a_member_that_only_resembles_an_array_is_no_array(load, tmp_path):
    """A member called `images` without `.npy` is missing like any other; it is no crash."""
    (tmp_path / "set.npz").write_bytes(damaged({"images": b"x", "labels.npy": b"x"}))
    with pytest.raises(Rejected, match="images: no such array"):
        load("npz", path="set.npz")
