"""The objects that all parts of the cluster share."""

from dataclasses import dataclass

from .clock import Clock
from .loop import Loop
from .registry import Registry
from .resources import Resource
from .store import Store


@dataclass(frozen=True)
class Timings:
    """Seconds that a real cluster takes by default; tests set them lower, or turn a clock by hand.

    `toleration`: how long a pod stays on a node that is lost (DefaultTolerationSeconds). `quarantine`: how long the
    pods of a node that is gone are kept (PodGC). `pod_backoff`: the first wait before a failed pod of a Job is
    replaced. `create_retry`: before a pod that was refused is tried again. `image_backoff`: the first wait after a
    failed pull. `bookmark`: between bookmarks of a watch.
    """

    toleration: int = 300
    quarantine: float = 40.0
    pod_backoff: float = 10.0
    create_retry: float = 1.0
    image_backoff: float = 10.0
    bookmark: float = 60.0


@dataclass(frozen=True)
class Context:
    """The parts that controllers share. `control` is their thread, `nodes` that of the kubelets."""

    registry: Registry
    control: Loop
    nodes: Loop
    timings: Timings

    @property
    def store(self) -> Store:
        """The store of the objects."""
        return self.registry.store

    @property
    def clock(self) -> Clock:
        """The cluster's time."""
        return self.registry.clock

    def of(self, plural: str, group: str = "") -> Resource:
        """Returns a resource."""
        return self.registry.catalogue.of(plural, group)
