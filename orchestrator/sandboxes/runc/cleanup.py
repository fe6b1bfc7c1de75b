"""What dead orchestrators left of their containers, and what is left of a run that ended."""

import shutil
from pathlib import Path

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.linux import parent_cgroup, process_tree
from orchestrator.sandboxes.linux.deferred_errors import DeferredErrors
from orchestrator.sandboxes.linux.owner import Owner, OwnerState

RUN_FOLDER = Path("/run/sparring")
"""Where each container has a folder, named by its tag, while it lives."""


def clean_up(spare_run: str | None, ended_run: str | None, folder: Path = RUN_FOLDER) -> int:
    """Removes control groups with what lives in them, and folders; see `Backend.clean_up`.

    Returns how many things it removed.
    """
    current = Owner.current_process()
    spared, over = (None if run is None else process_tree.run_digest(run) for run in (spare_run, ended_run))
    failed = DeferredErrors()  # one thing that cannot be ended keeps none of the others here
    removed = parent_cgroup.remove_dead_cgroups(current, failed, spared, ended_run=over)
    for home in sorted(folder.glob("sparring-*")):
        tag = process_tree.ProcessTag.parse(home.name)
        if tag is None or tag.run_digest == spared:
            continue
        if tag.run_digest == over or tag.owner(current).state_seen_by(current) is OwnerState.DEAD:
            with failed.collect():
                remove_home(home)
                removed += 1
    failed.raise_first()
    return removed


def remove_home(home: Path) -> None:
    """Removes the folder of a container that has ended. Raises SandboxLost."""
    try:
        shutil.rmtree(home)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise SandboxLost(f"{home} cannot be removed: {error}") from error
