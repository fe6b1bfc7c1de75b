"""Removes what dead orchestrators or an ended run left of their containers."""

import shutil
from pathlib import Path

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.linux import parent_cgroup, process_tree
from orchestrator.sandboxes.linux.deferred_errors import DeferredErrors
from orchestrator.sandboxes.linux.sandbox_owner import Owner, OwnerState

RUN_FOLDER = Path("/run/sparring")
"""Has a folder for each running container, named by its tag."""


def clean_up(spare_run: str | None, ended_run: str | None, folder: Path = RUN_FOLDER) -> int:
    """Kills processes, and removes control groups and folders; see `Backend.clean_up`.

    Returns the number of things removed.
    """
    current = Owner.current_process()
    spared, ended = (None if run is None else process_tree.run_digest(run) for run in (spare_run, ended_run))
    errors = DeferredErrors()  # one thing that cannot be removed does not keep the others
    removed = parent_cgroup.remove_dead_cgroups(current, errors, spared, ended_run=ended)
    for home in sorted(folder.glob("sparring-*")):
        tag = process_tree.ProcessTag.parse(home.name)
        if tag is None or tag.run_digest == spared:
            continue
        if tag.run_digest == ended or tag.owner(current).state_seen_by(current) is OwnerState.DEAD:
            with errors.collect():
                remove_home(home)
                removed += 1
    errors.raise_first()
    return removed


def remove_home(home: Path) -> None:
    """Removes the folder of a container that has ended. Raises SandboxLost."""
    try:
        shutil.rmtree(home)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise SandboxLost(f"{home} cannot be removed: {error}") from error
