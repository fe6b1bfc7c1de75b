"""IDX files: those of MNIST's form, and ones that are not what they say."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.errors import Rejected

PIXELS = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)
LABELS = np.array([2, 0, 1], np.uint8)


def idx(array: np.ndarray, *, kind: int = 8) -> bytes:
    """Returns the bytes of an IDX file."""
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def files(tmp_path: Path):
    """Writes a file of pictures and a file of labels, and returns the options that name them."""

    def write(images: bytes = idx(PIXELS), labels: bytes = idx(LABELS)) -> dict[str, str]:
        (tmp_path / "images").write_bytes(images)
        (tmp_path / "labels").write_bytes(labels)
        return {"images": "images", "labels": "labels"}

    return write


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_pictures_and_labels_are_read(load, files, pack) -> None:
    """Grey, in the order of the files, packed or not."""
    samples = load("idx", **files(pack(idx(PIXELS)), pack(idx(LABELS))))
    assert np.array_equal(samples.pixels, PIXELS[:, np.newaxis])
    assert (samples.labels.tolist(), samples.classes) == ([2, 0, 1], ("0", "1", "2"))


@pytest.mark.parametrize(
    ("images", "what"),
    [
        (b"", "does not begin like an IDX file"),
        (b"\0\0\10", "does not begin like an IDX file"),
        (b"PK\3\4" + bytes(100), "does not begin like an IDX file"),
        (idx(PIXELS, kind=13), "type 13; unsigned bytes"),
        (idx(PIXELS)[:10], "ends in its header"),
        (idx(PIXELS)[:-1], "60 bytes of values, and there are only 59"),
        (idx(PIXELS) + b"\0", "60 bytes of values, and there are more"),
        (b"\0\0\10\3" + b"\xff" * 12, "bytes, at most"),
        (gzip.compress(idx(PIXELS))[:-9], "Compressed file ended"),
        (gzip.compress(idx(PIXELS))[:-8] + bytes(8), "CRC check failed"),
    ],
)
def test_what_is_no_idx_file_is_refused(problems, files, images, what) -> None:
    """With its path, what is wrong and the remedy; nothing is held that it only promises."""
    [problem] = problems("idx", **files(images))
    assert what in problem
    assert "/images: " in problem
    assert "give the path of an IDX file" in problem


def test_both_files_are_looked_at(problems) -> None:
    """All that is wrong is said at once."""
    assert len(problems("idx", images="none", labels="neither")) == 2


def test_one_label_a_picture(problems, files) -> None:
    """A file of other labels is refused."""
    assert "give one label a picture" in problems("idx", **files(labels=idx(LABELS[:2])))[0]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.binary(max_size=80), st.binary(max_size=40))
def test_any_bytes_are_pictures_or_refused(load, files, head, tail) -> None:
    """Whatever the files hold, nothing else is raised."""
    try:
        samples = load("idx", **files(head + tail, idx(LABELS)))
    except Rejected:
        return
    assert len(samples) == 3
