"""Temporary folders whose names contain their owner, so that a sweep can tell those of dead and live processes apart.

The name is a prefix and a tag (see `ProcessTag`). A folder has this name from its creation, so a sweep can identify the
owner even if that was killed right after.
"""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from orchestrator.sandboxes.linux.process_tree import ProcessTag
from orchestrator.sandboxes.linux.sandbox_owner import Owner, OwnerState


def make_folder(prefix: str) -> Path:
    """Makes a new folder that only this user may enter; raises FileExistsError if another user guessed its name."""
    tag = ProcessTag.create(Owner.current_process(), run="")
    folder = Path(tempfile.gettempdir(), f"{prefix}{tag.text}")
    folder.mkdir(mode=0o700)
    return folder


def remove_dead_folders(prefix: str, here: Owner) -> int:
    """Removes the folders of orchestrators that are known to be dead; returns how many."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        tag = ProcessTag.parse(folder.name.removeprefix(prefix))
        if tag is not None and tag.owner(here).state_seen_by(here) is OwnerState.DEAD:
            with suppress(OSError):  # another user's, or removed meanwhile
                shutil.rmtree(folder)
                removed += 1
    return removed
