"""The zip of a task (C1): what is written for participants, and how it is read again."""

import hashlib
import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from orchestrator.domain.samples import Samples
from orchestrator.domain.submissions import PictureFormat
from orchestrator.errors import Rejected, UsageError
from orchestrator.intake.picture_archive import PictureLayout, read_picture_archive
from orchestrator.picture_files import task_zip
from orchestrator.picture_files.task_zip import read_task_zip, write_picture_archive

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 3, 5, 4), np.uint8)
COLOUR = Samples(PIXELS, np.array([1, 0, 1]), ("cat", "dog"))
GREY = replace(COLOUR, pixels=PIXELS[:, :1])
BOTH = pytest.mark.parametrize("samples", [COLOUR, GREY], ids=["colour", "grey"])


def jpegs(pixels: np.ndarray) -> tuple[list[bytes], np.ndarray]:
    """Returns pictures as JPEGs, and what these decode to."""
    files = []
    for picture in pixels:
        out = io.BytesIO()
        Image.fromarray(picture.transpose(1, 2, 0)).save(out, "JPEG", comment=b"kept")
        files.append(out.getvalue())
    decoded = [np.asarray(Image.open(io.BytesIO(data))).transpose(2, 0, 1) for data in files]
    return files, np.stack(decoded)


@BOTH
def test_what_is_written_is_read_again(tmp_path, samples) -> None:
    """By the reader of tasks and by that of entries: the same pictures, with their labels."""
    names = write_picture_archive(tmp_path / "task.zip", samples)
    assert names == ("images/0.png", "images/1.png", "images/2.png")
    task = read_task_zip(tmp_path / "task.zip")
    assert (task.pixels == samples.pixels).all()
    assert [(line.name, line.label) for line in task.lines] == [("0.png", "dog"), ("1.png", "cat"), ("2.png", "dog")]
    layout = PictureLayout.of_task(samples, names, frozenset({PictureFormat.PNG}))
    assert (read_picture_archive(tmp_path / "task.zip", layout).pixels == samples.pixels).all()


def test_the_same_samples_give_the_same_bytes(tmp_path) -> None:
    """No time of day and no user is in the zip."""
    for name in ("one.zip", "two.zip"):
        write_picture_archive(tmp_path / name, COLOUR)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.namelist()[-1] == "label.txt"


def test_originals_are_kept_byte_by_byte(tmp_path) -> None:
    """Participants get the files that the task's pictures came from, metadata included."""
    files, pixels = jpegs(PIXELS)
    names = write_picture_archive(tmp_path / "task.zip", replace(COLOUR, pixels=pixels), files)
    assert names == ("images/0.jpg", "images/1.jpg", "images/2.jpg")
    assert read_task_zip(tmp_path / "task.zip").files == tuple(files)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda files: files[::-1], "the file of picture 0 is that of another one"),
        (lambda files: [b"GIF89a", *files[1:]], "the file of picture 0 is that of another one"),
        (lambda files: [*files[:2], files[2] + b"x"], "the file of picture 2 cannot be published: 1 bytes after"),
        (lambda files: files[:2], "2 files of 3 pictures"),
    ],
    ids=["swapped", "gif", "bytes-after", "too-few"],
)
def test_originals_have_to_be_the_pictures(tmp_path, spoil, what) -> None:
    """What is published is what is scored against, and can be read by the same reader."""
    files, pixels = jpegs(PIXELS)
    with pytest.raises(ValueError, match=what):
        write_picture_archive(tmp_path / "task.zip", replace(COLOUR, pixels=pixels), spoil(files))
    assert not (tmp_path / "task.zip").exists()


def test_class_names_of_several_words_are_written_as_numbers(tmp_path) -> None:
    """A line of label.txt has two words."""
    write_picture_archive(tmp_path / "task.zip", replace(COLOUR, classes=("cat", "guide dog")))
    assert [line.label for line in read_task_zip(tmp_path / "task.zip").lines] == ["1", "0", "1"]


@pytest.mark.parametrize("limit", ["MAX_PICTURES", "MAX_BYTES"])
def test_too_many_pictures_are_refused(tmp_path, monkeypatch, limit) -> None:
    """A zip without 64-bit fields, which is what is read here, has room for so many."""
    most = {"MAX_PICTURES": len(COLOUR), "MAX_BYTES": COLOUR.pixels.nbytes}[limit]
    monkeypatch.setattr(task_zip, limit, most)
    write_picture_archive(tmp_path / "task.zip", COLOUR)
    monkeypatch.setattr(task_zip, limit, most - 1)
    with pytest.raises(UsageError, match="3 pictures do not fit into one zip"):
        write_picture_archive(tmp_path / "task.zip", COLOUR)


def problems(tmp_path, files: dict[str, bytes]) -> list[str]:
    """Returns the problems with which the zip of a task is refused."""
    with zipfile.ZipFile(tmp_path / "task.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    with pytest.raises(Rejected) as caught:
        read_task_zip(tmp_path / "task.zip")
    return [f"{problem.place}: {problem.what}" for problem in caught.value.problems]


@pytest.fixture
def files(tmp_path) -> dict[str, bytes]:
    """The files of a good zip of a task."""
    write_picture_archive(tmp_path / "task.zip", COLOUR)
    with zipfile.ZipFile(tmp_path / "task.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"label.txt": None}, "label.txt: missing"),
        ({"label.txt": b""}, "label.txt: no pictures"),
        ({"label.txt": b"\xff"}, "label.txt: not UTF-8"),
        ({"label.txt": b"0.png\n"}, "label.txt line 1: '0.png' is not `name class`"),
        ({"label.txt": b"0.png 1\n"}, "images/1.png, images/2.png: not in label.txt"),
        ({"images/1.png": None}, "label.txt line 2: images/1.png is missing"),
        ({"images/1.png": b"x"}, "images/1.png: no picture"),
        ({"images/3.png": b"x"}, "images/3.png: not in label.txt"),
        ({"README": b"x"}, "README: not in label.txt"),
        ({"../x": b"x"}, "../x: a name that leads out of its folder"),
    ],
    ids=[
        *("no-labels", "empty-labels", "labels-not-utf-8", "line-of-one-word", "unlisted", "missing", "no-picture"),
        *("extra-picture", "extra-file", "parent-folder"),
    ],
)
def test_what_is_wrong_with_a_task_is_named(tmp_path, files, change, what) -> None:
    """Each problem has its place."""
    changed = {name: data for name, data in (files | change).items() if data is not None}
    assert what in problems(tmp_path, changed)


def test_all_pictures_have_one_shape(tmp_path, files) -> None:
    """That of the first one."""
    grey = io.BytesIO()
    Image.fromarray(PIXELS[0, 0]).save(grey, "PNG")
    assert problems(tmp_path, files | {"images/2.png": grey.getvalue()}) == [
        "images/2.png: grey, and has to be in colour"
    ]


@pytest.mark.slow
@pytest.mark.data
def test_the_published_task_is_published_again(shared_data, tmp_path) -> None:
    """The task of the announced contest goes out with the bytes that came in, and decodes to the same pixels."""
    task = read_task_zip(shared_data / "cifar10" / "test500.zip")
    labels = np.array([int(line.label) for line in task.lines])
    samples = Samples(task.pixels, labels, tuple("0123456789"))
    write_picture_archive(tmp_path / "task.zip", samples, task.files)
    again = read_task_zip(tmp_path / "task.zip")
    assert (again.files, again.lines) == (task.files, task.lines)
    stated = (shared_data / "cifar10" / "README.md").read_text().split("in index order:\n")[1].split()[0]
    assert hashlib.sha256(np.ascontiguousarray(again.pixels.transpose(0, 2, 3, 1))).hexdigest() == stated
