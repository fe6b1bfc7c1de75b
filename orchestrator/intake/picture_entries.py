"""Reads entries of pictures in the layout that their task requires (rule C2)."""

from pathlib import Path

from orchestrator.domain.samples import Samples
from orchestrator.domain.submissions import PictureFormat
from orchestrator.errors import Problem, Rejected
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.picture_archive import PictureArchive, PictureLayout, read_picture_archive


def read_entry_pictures(path: Path, contest: Contest, task: str | None = None) -> PictureArchive:
    """Returns the pictures that were submitted for a task, by default for the only one.

    Raises:
        UsageError: there is no such file, or no such task.
        Rejected: the contest accepts no pictures; or with all problems of these.
    """
    formats: tuple[PictureFormat, ...] = contest.format.picture_formats()
    if not formats:
        problem = f"the format {contest.file.format} takes programs, not pictures"
        raise Rejected(f"pictures {path.name}", [Problem("pictures", problem, "submit a folder or an image")])
    return read_picture_archive(path, task_layout(contest.load_samples(task), formats))


def task_layout(samples: Samples, formats: tuple[PictureFormat, ...]) -> PictureLayout:
    """Returns the layout of a task's archives: pictures named by number, from 0, and optional labels."""
    ending = "jpg" if PictureFormat.JPEG in formats else "png"
    names = tuple(f"images/{number}.{ending}" for number in range(len(samples)))
    return PictureLayout.of_task(samples, names, frozenset(formats))
