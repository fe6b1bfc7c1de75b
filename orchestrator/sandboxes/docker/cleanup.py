"""Removes what dead orchestrators or an ended run left in the engine, which it finds by label."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from orchestrator.sandboxes.docker import container_spec, orphans
from orchestrator.sandboxes.docker.container_sandbox import ContainerEngine, remove_container
from orchestrator.sandboxes.docker.images import image_copy
from orchestrator.sandboxes.linux import parent_cgroup, process_tree
from orchestrator.sandboxes.linux.deferred_errors import DeferredErrors
from orchestrator.sandboxes.linux.sandbox_owner import Owner, OwnerState


class CleanupEngine(ContainerEngine, image_copy.CopyEngine, Protocol):
    """The engine's calls that `clean_up` uses. Each raises SandboxLost if the engine fails."""

    def containers(self) -> Sequence[Mapping[str, Any]]:
        """Returns every container that an orchestrator created."""
        ...

    def container_ids(self) -> set[str]:
        """Returns the ids of all containers of the engine, including those of other programs."""
        ...


def clean_up(engine: CleanupEngine, spare_run: str | None, ended_run: str | None) -> int:
    """Removes containers, copies of images, control groups and processes; see `DockerBackend.clean_up`."""
    current = Owner.current_process()
    errors = DeferredErrors()  # one thing that cannot be removed does not keep the others
    removed = 0

    def remove_if_abandoned(labels: Mapping[str, str], remove: Callable[[], object]) -> int:
        owner, run = Owner.parse(labels.get(container_spec.OWNER_LABEL, "")), labels.get(container_spec.RUN_LABEL)
        abandoned = owner is not None and (
            owner.state_seen_by(current) is OwnerState.DEAD or (owner == current and run == ended_run)
        )
        count = 0
        if abandoned and (spare_run is None or run != spare_run):
            with errors.collect():
                remove()
                count = 1
        return count

    with errors.collect():
        for container in engine.containers():
            labels = container.get("Labels") or {}
            removed += remove_if_abandoned(labels, partial(remove_container, engine, container["Id"]))
    with errors.collect():
        for copy_id, labels in image_copy.find_copies(engine, container_spec.RUN_LABEL):
            removed += remove_if_abandoned(labels, partial(image_copy.remove_copy, engine, copy_id))
    spared_digest = None if spare_run is None else process_tree.run_digest(spare_run)
    ended_digest = None if ended_run is None else process_tree.run_digest(ended_run)
    removed += parent_cgroup.remove_dead_cgroups(current, errors, spared_digest, ended_run=ended_digest)
    with errors.collect():
        removed += orphans.kill_orphans(engine.container_ids, current, spared_digest)
    errors.raise_first()
    return removed
