"""What dead orchestrators left in the engine, and what is left of a run that ended: found by label, and removed."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from orchestrator.backends import _account, _container, _copying, _leftovers, _processes
from orchestrator.backends._contained import Containers, remove
from orchestrator.backends._failed import Failed
from orchestrator.backends._owner import Life, Owner


class Engine(Containers, _copying.Engine, Protocol):
    """What sweeping needs of the engine. Each call raises SandboxLost when the engine fails."""

    def containers(self) -> Sequence[Mapping[str, Any]]:
        """Returns every container that some orchestrator started here."""
        ...

    def ids(self) -> set[str]:
        """Returns the ids of all containers, whoever made them."""
        ...


def sweep(engine: Engine, keep: str | None, ended: str | None) -> int:
    """Removes containers, copies of images, control groups and processes; see `DockerBackend.sweep`."""
    here = Owner.current()
    failed = Failed()  # one thing that cannot be ended keeps none of the others here
    removed = 0

    def clear(labels: Mapping[str, str], end: Callable[[], object]) -> int:
        owner, run = Owner.parse(labels.get(_container.OWNER, "")), labels.get(_container.RUN)
        over = owner is not None and (owner.life(here) is Life.DEAD or (owner == here and run == ended))
        ended_now = 0
        if over and (keep is None or run != keep):
            with failed.noted():
                end()
                ended_now = 1
        return ended_now

    with failed.noted():
        for container in engine.containers():
            removed += clear(container.get("Labels") or {}, partial(remove, engine, container["Id"]))
    with failed.noted():
        for copied, labels in _copying.copies(engine, _container.RUN):
            removed += clear(labels, partial(_copying.remove, engine, copied))
    spared = None if keep is None else _processes.short(keep)
    over_too = None if ended is None else _processes.short(ended)
    removed += _account.sweep(here, failed, spared, ended=over_too)
    with failed.noted():
        removed += _leftovers.sweep(engine.ids, here, spared)
    failed.tell()
    return removed
