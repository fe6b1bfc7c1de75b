"""Temporary folders that name their owner, so that a sweep can distinguish those of dead and of live processes.

The name is a prefix and a tag (see `ProcessTag`). A folder is created with this name, so even if its owner is killed
right after that, a sweep knows whose it is.
"""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from orchestrator.sandboxes.linux.owner import Owner, OwnerState
from orchestrator.sandboxes.linux.process_tree import ProcessTag


def make_folder(prefix: str) -> Path:
    """Makes a folder that nobody else has or may enter; raises FileExistsError where somebody guessed its name."""
    tag = ProcessTag.create(Owner.current_process(), run="")
    folder = Path(tempfile.gettempdir(), f"{prefix}{tag.text}")
    folder.mkdir(mode=0o700)
    return folder


def remove_dead_folders(prefix: str, here: Owner) -> int:
    """Removes the folders of orchestrators that were killed; returns how many. What nobody can judge is spared."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        tag = ProcessTag.parse(folder.name.removeprefix(prefix))
        if tag is not None and tag.owner(here).state_seen_by(here) is OwnerState.DEAD:
            with suppress(OSError):  # another user's, or gone meanwhile
                shutil.rmtree(folder)
                removed += 1
    return removed
