"""Where the service keeps files that are not whole yet. It needs no Django, so that a command can look there, too."""

from contextlib import suppress
from pathlib import Path

from orchestrator.application.contests.closing_preview import UploadUnderWay
from orchestrator.web.settings import FOLDER

CREATING = ".creating"
"""The file that whoever begins an upload holds."""


def uploads_folder(contest: Path) -> Path:
    """Returns the folder of files that are not whole yet, in a contest's folder."""
    return contest / FOLDER / "uploads"


def unfinished_files(contest: Path) -> list[UploadUnderWay]:
    """Returns what is here of each file that is being uploaded. Whose it is knows the service's database alone."""
    found = []
    for path in uploads_folder(contest).glob("*"):
        with suppress(FileNotFoundError):  # it is whole by now, or given up
            if path.name != CREATING:
                found.append(UploadUnderWay(received=path.stat().st_size))
    return found
