"""Where the service keeps unfinished uploads. This module needs no Django, so that commands can use it, too."""

from contextlib import suppress
from pathlib import Path

from orchestrator.application.contests.closing_preview import UploadUnderWay
from orchestrator.web.settings import FOLDER

CREATING = ".creating"
"""The name of the lock file that a process holds while it begins an upload."""


def uploads_folder(contest: Path) -> Path:
    """Returns the folder of unfinished uploads in a contest's folder."""
    return contest / FOLDER / "uploads"


def unfinished_files(contest: Path) -> list[UploadUnderWay]:
    """Returns how many bytes of each unfinished upload have come. Only the service's database knows the teams."""
    found = []
    for path in uploads_folder(contest).glob("*"):
        with suppress(FileNotFoundError):  # the upload was completed or removed meanwhile
            if path.name != CREATING:
                found.append(UploadUnderWay(received=path.stat().st_size))
    return found
