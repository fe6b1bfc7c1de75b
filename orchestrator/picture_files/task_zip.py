"""Reads and writes the zip of a task's pictures with `label.txt` (rule C1).

|-- images
|   |-- 0.png
|   `-- 1.png
`-- label.txt
"""

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orchestrator.archives.regular_file import open_regular_file
from orchestrator.domain.samples import Pixels, Samples
from orchestrator.domain.submissions import PictureFormat
from orchestrator.domain.text import printable
from orchestrator.errors import UsageError
from orchestrator.files import write_whole
from orchestrator.picture_files import labels
from orchestrator.picture_files.decode import decode_picture, format_of
from orchestrator.picture_files.labels import LabelLine
from orchestrator.picture_files.picture import PictureRefused
from orchestrator.picture_files.problems import ProblemList
from orchestrator.picture_files.zip_files import PictureBounds, ZippedFile, visit_files

IMAGES = "images"
SUFFIXES = {PictureFormat.JPEG: ".jpg", PictureFormat.PNG: ".png"}
_BOUNDS = PictureBounds(members=0xFFFF, file_bytes=32 * 1024**2, total_bytes=4 * 1024**3, unchecked_bytes=4 * 1024**3)
MAX_PICTURES, MAX_BYTES = 65_000, 2 * 1024**3
"""The largest number of pictures, and of bytes of pixels, in a published zip, which has no 64-bit fields."""
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can have."""
_UNIX, _MODE = 3, 0o644


@dataclass(frozen=True, eq=False)
class TaskZip:
    """The contents of a task's zip, in the order of `label.txt`.

    Attributes:
        pixels: u8 [n, c, h, w].
        lines: the line of each picture.
        files: the bytes of each picture's file.
    """

    pixels: Pixels
    lines: tuple[LabelLine, ...]
    files: tuple[bytes, ...]


def read_task_zip(path: Path) -> TaskZip:
    """Returns pictures and labels. Every file in `images/` has to be listed in `label.txt`, once.

    Raises:
        UsageError: there is no such file.
        Rejected: with every problem.
    """
    problems = ProblemList()
    files: dict[str, bytes] = {}

    def keep(file: ZippedFile) -> None:
        if file.size > _BOUNDS.file_bytes:
            problems.add(file.name, f"{file.size} bytes, at most {_BOUNDS.file_bytes}", "use a smaller file")
        else:
            files[file.name] = file.read()

    with open_regular_file(path) as file:
        whole = visit_files(file, _BOUNDS, {IMAGES, labels.FILE_NAME}, problems, keep)
    lines = _lines(files.pop(labels.FILE_NAME, None), problems) if whole else []
    pixels = _pictures(lines, files, problems)
    problems.raise_if_any(f"pictures {printable(path.name)}")
    return TaskZip(pixels, tuple(lines), tuple(files[f"{IMAGES}/{line.name}"] for line in lines))


def write_picture_archive(path: Path, samples: Samples, originals: Sequence[bytes] | None = None) -> tuple[str, ...]:
    """Writes the zip of a task that participants download, and returns the name of each picture in it (rule C1).

    Pictures are PNG, or the same bytes as the files that they were decoded from: encoding a JPEG again would publish
    other pictures than those that submissions are compared with. The same samples give the same bytes, with the same
    versions of Pillow and zlib.

    Args:
        path: the file to write.
        samples: pictures of 1 or 3 channels, labels and class names.
        originals: the JPEG or PNG of each picture.

    Raises:
        ValueError: an original is not the file of its picture, or their number is not that of the pictures.
        UsageError: there are too many pictures for one zip.
        StoreFault: the file cannot be written.
    """
    if originals is not None and len(originals) != len(samples):
        raise ValueError(f"{len(originals)} files of {len(samples)} pictures")
    if len(samples) > MAX_PICTURES or samples.pixels.nbytes > MAX_BYTES:
        raise UsageError(f"{len(samples)} pictures do not fit into one zip; use fewer (task.dataset.first)")
    contents = list(originals) if originals is not None else [_png(picture) for picture in samples.pixels]
    names = []
    for position, (content, picture) in enumerate(zip(contents, samples.pixels, strict=True)):
        names.append(f"{IMAGES}/{position}{SUFFIXES[_checked_format(position, content, picture)]}")
    texts = labels.label_texts(samples.labels.tolist(), samples.classes)
    listed = [f"{name.removeprefix(f'{IMAGES}/')} {text}\n" for name, text in zip(names, texts, strict=True)]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", allowZip64=False) as archive:
        for name, content in zip(names, contents, strict=True):
            archive.writestr(_member(name), content)
        archive.writestr(_member(labels.FILE_NAME), "".join(listed))
    write_whole(path, made.getvalue())
    return tuple(names)


def _lines(content: bytes | None, problems: ProblemList) -> list[LabelLine]:
    remedy = f"put a {labels.FILE_NAME} in UTF-8 beside {IMAGES}/, with a line `0.png 7` for each picture"
    try:
        lines, found = labels.parse_label_lines((content or b"").decode("utf-8-sig"))
    except UnicodeDecodeError:
        problems.add(labels.FILE_NAME, "not UTF-8", remedy)
        return []
    for problem in found:
        problems.add(problem.place, problem.what, problem.remedy)
    if not lines and not found:
        problems.add(labels.FILE_NAME, "missing" if content is None else "no pictures", remedy)
    return lines


def _pictures(lines: list[LabelLine], files: dict[str, bytes], problems: ProblemList) -> Pixels:
    """Returns the pictures of the lines, all with the first one's shape, and adds their problems to `problems`."""
    pictures: list[Pixels] = []
    listed = {f"{IMAGES}/{line.name}" for line in lines}
    for name in files:
        if lines and name not in listed:
            problems.add(name, f"not in {labels.FILE_NAME}", "list it, or remove it")
    for line in lines:
        name = f"{IMAGES}/{line.name}"
        if name not in files:
            problems.add(line.place, f"{name} is missing", "put it into the zip")
            continue
        try:
            shape = pictures[0].shape if pictures else None
            pictures.append(decode_picture(files[name], SUFFIXES, shape)[0])
        except PictureRefused as error:
            problems.add(name, str(error), error.remedy)
    return np.stack(pictures) if pictures else np.zeros((0, 1, 1, 1), np.uint8)


def _png(picture: Pixels) -> bytes:
    """Returns a picture u8 [c, h, w] as a PNG."""
    from PIL import Image  # noqa: PLC0415  every command imports this module, and few need Pillow

    out = io.BytesIO()
    Image.fromarray(picture[0] if len(picture) == 1 else np.moveaxis(picture, 0, 2)).save(out, "PNG")
    return out.getvalue()


def _checked_format(position: int, content: bytes, picture: Pixels) -> PictureFormat:
    """Returns the format of a picture's file. Raises ValueError if the file is not that of the picture."""
    form = format_of(content)
    try:
        if form is not None and np.array_equal(decode_picture(content, SUFFIXES)[0], picture):
            return form
    except PictureRefused as error:
        raise ValueError(f"the file of picture {position} cannot be published: {error}") from error
    raise ValueError(f"the file of picture {position} is that of another one")


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, _FIRST_DATE)
    member.create_system, member.external_attr = _UNIX, _MODE << 16
    return member
