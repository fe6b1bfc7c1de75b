"""What dead orchestrators left in the engine, and what is left of a run that ended: found by label, and removed."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from orchestrator.sandboxes.docker import container_spec, orphans
from orchestrator.sandboxes.docker.container_sandbox import ContainerEngine, remove_container
from orchestrator.sandboxes.docker.images import image_copy
from orchestrator.sandboxes.linux import parent_cgroup, process_tree
from orchestrator.sandboxes.linux.deferred_errors import DeferredErrors
from orchestrator.sandboxes.linux.owner import Owner, OwnerState


class CleanupEngine(ContainerEngine, image_copy.CopyEngine, Protocol):
    """What sweeping needs of the engine. Each call raises SandboxLost when the engine fails."""

    def containers(self) -> Sequence[Mapping[str, Any]]:
        """Returns every container that some orchestrator started here."""
        ...

    def container_ids(self) -> set[str]:
        """Returns the ids of all containers of the engine, also of those that other programs made."""
        ...


def clean_up(engine: CleanupEngine, spare_run: str | None, ended_run: str | None) -> int:
    """Removes containers, copies of images, control groups and processes; see `DockerBackend.clean_up`."""
    current = Owner.current_process()
    failed = DeferredErrors()  # one thing that cannot be ended keeps none of the others here
    removed = 0

    def clear(labels: Mapping[str, str], end: Callable[[], object]) -> int:
        owner, run = Owner.parse(labels.get(container_spec.OWNER_LABEL, "")), labels.get(container_spec.RUN_LABEL)
        over = owner is not None and (
            owner.state_seen_by(current) is OwnerState.DEAD or (owner == current and run == ended_run)
        )
        count = 0
        if over and (spare_run is None or run != spare_run):
            with failed.collect():
                end()
                count = 1
        return count

    with failed.collect():
        for container in engine.containers():
            removed += clear(container.get("Labels") or {}, partial(remove_container, engine, container["Id"]))
    with failed.collect():
        for copied, labels in image_copy.find_copies(engine, container_spec.RUN_LABEL):
            removed += clear(labels, partial(image_copy.remove_copy, engine, copied))
    spared = None if spare_run is None else process_tree.run_digest(spare_run)
    over_too = None if ended_run is None else process_tree.run_digest(ended_run)
    removed += parent_cgroup.remove_dead_cgroups(current, failed, spared, ended_run=over_too)
    with failed.collect():
        removed += orphans.kill_orphans(engine.container_ids, current, spared)
    failed.raise_first()
    return removed
