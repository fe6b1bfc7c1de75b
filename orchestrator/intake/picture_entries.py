"""Entries that are pictures: which archive a task asks for, and what one holds (rule C2)."""

from dataclasses import dataclass
from pathlib import Path

from orchestrator.domain.samples import Pixels, Samples
from orchestrator.domain.submissions import PictureFormat
from orchestrator.errors import Problem, Rejected
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.picture_archive import PictureLayout, read_picture_archive


@dataclass(frozen=True, slots=True, eq=False)
class EntryPictures:
    """The pictures of one entry.

    Attributes:
        pixels: u8 [n, c, h, w], in the task's order.
        digest: of the archive.
        decoder: the libraries that decoded it, with their versions.
    """

    pixels: Pixels
    digest: str
    decoder: str


def read_entry_pictures(path: Path, contest: Contest, task: str | None = None) -> EntryPictures:
    """Returns the pictures that were handed in for a task, of the only one by default.

    Raises:
        UsageError: there is no such file, or no such task.
        Rejected: the contest takes no pictures, or with everything that is wrong with these.
    """
    formats: tuple[PictureFormat, ...] = contest.format.picture_formats()
    if not formats:
        problem = f"the format {contest.file.format} takes programs, not pictures"
        raise Rejected(f"pictures {path.name}", [Problem("pictures", problem, "hand in a folder or an image")])
    layout = task_layout(contest.load_samples(task), formats)
    archive = read_picture_archive(path, layout)
    decoder = ", ".join(f"{name} {version}" for name, version in archive.decoder.items())
    return EntryPictures(archive.pixels, archive.digest, decoder)


def task_layout(samples: Samples, formats: tuple[PictureFormat, ...]) -> PictureLayout:
    """Returns what an archive of a task has to hold: its pictures by number, from 0, and maybe its labels."""
    ending = "jpg" if PictureFormat.JPEG in formats else "png"
    names = tuple(f"images/{number}.{ending}" for number in range(len(samples)))
    return PictureLayout.of_task(samples, names, frozenset(formats))
