"""The files for download: public pictures, templates of submissions, the public key. None holds anything secret."""

import io
import json
import tempfile
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from orchestrator.application.contests import public_pictures
from orchestrator.domain.samples import Samples
from orchestrator.domain.submissions import Side
from orchestrator.intake import scaffold
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.scaffold import Framework, ScaffoldRequest
from orchestrator.picture_files import task_zip
from orchestrator.web.contest_site import ContestSite, web_settings

_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip archive can hold."""
_UNIX = 3
_FOLDER = "downloads"
_lock = threading.Lock()
_Writer = Callable[[Path, Samples], object]
"""Writes pictures to a file."""


@dataclass(frozen=True, slots=True)
class Download:
    """A file: its name in its address, a description, its media type, and the function that returns its bytes."""

    name: str
    description: str
    media_type: str
    make: Callable[[], bytes]


def downloads_of(site: ContestSite) -> list[Download]:
    """Returns all downloads of a contest, in the order of the page."""
    contest, zipped = site.contest(), "application/zip"
    found = []
    for task in contest.file.all_tasks:
        name = task.name
        if contest.format.picture_formats():  # then teams get the pictures and submit changed ones (C1)
            found.append(
                Download(
                    f"pictures-{name}.zip",
                    f"The pictures of {name} with their labels: change them, and submit them",
                    zipped,
                    partial(_own_pictures, contest, name),
                )
            )
        if task.sample is not None:
            found.append(
                Download(
                    f"sample-{name}.zip",
                    f"Public pictures of the kind of {name}, with their labels: to try a submission with",
                    zipped,
                    partial(_sample, contest, name, ".zip", task_zip.write_picture_archive),
                )
            )
        if task.sample is not None and contest.format.programs:
            found.append(
                Download(
                    f"sample-{name}.npz",
                    "The same pictures as arrays, as train.py of the templates reads them",
                    "application/octet-stream",
                    partial(_sample, contest, name, ".npz", public_pictures.write_arrays),
                )
            )
    if sides := contest.format.programs:
        description = "Templates of submissions: a folder for each language and each kind of program"
        found.append(Download("templates.zip", description, zipped, lambda: templates_zip(sides)))
    description = "The organizers' public key, which receipts and bundles are signed with"
    found.append(Download("key.json", description, "application/json", lambda: _key(site)))
    return found


def _own_pictures(contest: Contest, task: str) -> bytes:
    def write(path: Path, samples: Samples) -> None:
        task_zip.write_picture_archive(path, samples, contest.load_original_files(task))

    return _packed(f"pictures-{task}", contest.load_samples(task), ".zip", write)


def _sample(contest: Contest, task: str, suffix: str, write: _Writer) -> bytes:
    samples = contest.load_public_samples(task)
    if samples is None:
        raise AssertionError(f"{task} has no public pictures, and its download was listed")
    return _packed(f"sample-{task}", samples, suffix, write)


def _packed(name: str, samples: Samples, suffix: str, write: _Writer) -> bytes:
    """Returns a file of pictures, which is written when it is first requested. Raises UsageError, StoreFault."""
    folder = web_settings().folder / _FOLDER
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{samples.digest.removeprefix('sha256:')[:16]}{suffix}"
    with _lock:
        if not path.exists():
            write(path, samples)
    return path.read_bytes()


@cache
def templates_zip(sides: tuple[Side, ...]) -> bytes:
    """Returns a zip of what `sparring submission init` makes for each framework and side; always the same bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive, tempfile.TemporaryDirectory() as place:
        for side in sides:
            for framework in (each for each in Framework if side in each.sides):
                folder = Path(place) / f"{side}-{framework}"
                scaffold.create_submission(ScaffoldRequest(side, folder.name, framework), folder)
        for path in sorted(each for each in Path(place).rglob("*") if each.is_file()):
            member = zipfile.ZipInfo(f"templates/{path.relative_to(place).as_posix()}", _FIRST_DATE)
            executable = path.stat().st_mode & 0o100
            member.create_system, member.external_attr = _UNIX, (0o755 if executable else 0o644) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, path.read_bytes())
    return made.getvalue()


def _key(site: ContestSite) -> bytes:
    key = site.folder.key()
    document = {"algorithm": "Ed25519", "key": key.public_key.hex(), "fingerprint": key.fingerprint}
    return (json.dumps(document, indent=2) + "\n").encode()
