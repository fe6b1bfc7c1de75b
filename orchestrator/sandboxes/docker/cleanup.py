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

    def ids(self) -> set[str]:
        """Returns the ids of all containers, whoever made them."""
        ...


def clean_up(engine: CleanupEngine, keep: str | None, ended: str | None) -> int:
    """Removes containers, copies of images, control groups and processes; see `DockerBackend.sweep`."""
    here = Owner.current()
    failed = DeferredErrors()  # one thing that cannot be ended keeps none of the others here
    removed = 0

    def clear(labels: Mapping[str, str], end: Callable[[], object]) -> int:
        owner, run = Owner.parse(labels.get(container_spec.OWNER_LABEL, "")), labels.get(container_spec.RUN_LABEL)
        over = owner is not None and (owner.life(here) is OwnerState.DEAD or (owner == here and run == ended))
        ended_now = 0
        if over and (keep is None or run != keep):
            with failed.noted():
                end()
                ended_now = 1
        return ended_now

    with failed.noted():
        for container in engine.containers():
            removed += clear(container.get("Labels") or {}, partial(remove_container, engine, container["Id"]))
    with failed.noted():
        for copied, labels in image_copy.find_copies(engine, container_spec.RUN_LABEL):
            removed += clear(labels, partial(image_copy.remove_copy, engine, copied))
    spared = None if keep is None else process_tree.run_digest(keep)
    over_too = None if ended is None else process_tree.run_digest(ended)
    removed += parent_cgroup.remove_dead_cgroups(here, failed, spared, ended=over_too)
    with failed.noted():
        removed += orphans.kill_orphans(engine.ids, here, spared)
    failed.tell()
    return removed
