"""The cluster object that tests use."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from . import schemas
from .api import Api
from .authorization import Authority, User, service_account
from .claims import Claims, QuotaStatus
from .clock import Clock, SystemClock, eventually
from .context import Context, Timings
from .faults import Faults
from .garbage import GarbageCollector
from .images import Images
from .jobs import JobController
from .kubelet import Hook, Kubelets
from .loop import Loop
from .names import Names
from .nodes import Node, Nodes
from .registry import Deletion, Registry
from .resources import Catalogue, Resource
from .scheduler import Scheduler
from .server import Server
from .store import Store
from .subresources import Subresources

NAMESPACES = ("default", "kube-system")


@dataclass(frozen=True)
class Settings:
    """The settings of a cluster.

    `version`: the Kubernetes version of its schemas, the newest if empty. `want_token`: requests without a token are
    `system:anonymous`, not the administrator. `unknown`: how unknown fields are handled if a request does not say it (a
    real server: `Warn`). `keep`: how many changes of a resource are kept at least. `check_own`: objects that the
    cluster's own controllers write are checked against the schemas, too, which takes most of their time.
    """

    version: str = ""
    want_token: bool = False
    unknown: str = "Strict"
    seed: int = 0
    keep: int = 10_000
    check_own: bool = False
    timings: Timings = field(default_factory=Timings)


class Cluster:
    """A control plane, its nodes, and methods to break both. Use it as a context manager."""

    def __init__(
        self,
        run: Hook,
        nodes: tuple[Node, ...] = (Node(),),
        settings: Settings | None = None,
        clock: Clock | None = None,
    ) -> None:
        settings = settings or Settings()
        settings = replace(settings, version=settings.version or schemas.versions()[-1])
        self.settings, self.clock = settings, clock or SystemClock()
        self.store, self.catalogue = Store(settings.keep), Catalogue()
        names = Names(settings.seed)
        self.registry = Registry(self.store, self.catalogue, self.clock, names, settings.version)
        self.registry.toleration, self.registry.check_own = settings.timings.toleration, settings.check_own
        self._loops = (Loop("control", self.clock), Loop("nodes", self.clock))
        context = Context(self.registry, *self._loops, settings.timings)
        self.images = Images(settings.timings.image_backoff)
        self.kubelets = Kubelets(context, run, self.images)
        self.nodes = Nodes(context, self.kubelets)
        self.claims = Claims(context)
        self._controllers = (
            JobController(context),
            Scheduler(context),
            GarbageCollector(context),
            QuotaStatus(context),
        )
        self.faults = Faults(self.store)
        self.authority = Authority(self.store, self.catalogue, want_token=settings.want_token)
        children = Subresources(self.registry, self.authority, self.kubelets, self.nodes)
        self.api = Api(self.registry, self.authority, self.faults, children, settings.timings.bookmark)
        self.api.unknown = settings.unknown
        self._server = Server(self.api)
        self._first_nodes = nodes

    def __enter__(self) -> Self:
        for each in self._loops:
            each.start()
        for name in NAMESPACES:
            self.namespace(name)
        for node in self._first_nodes:
            self.nodes.add(node)
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()
        with self.store.changed:
            self.store.changed.notify_all()
        for each in self._loops:
            each.stop()
        self.kubelets.stop()
        if error is None:
            self.check()

    def check(self) -> None:
        """Checks that the cluster itself works.

        Raises:
            AssertionError: one of its controllers failed.
        """
        errors = [error for each in self._loops for error in each.errors]
        assert not errors, "\n".join(errors)

    @property
    def url(self) -> str:
        """The URL of the API."""
        return self._server.url

    def kubeconfig(self, path: Path, token: str = "") -> Path:
        """Writes a configuration file for clients, with a token or without."""
        user = {"token": token} if token else {}
        held = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
            "current-context": "test",
        }
        path.write_text(json.dumps(held))
        return path

    def namespace(self, name: str) -> None:
        """Creates a namespace with its service account `default`."""
        self.registry.create(self.catalogue.of("namespaces"), "", {"metadata": {"name": name}})
        self.registry.create(self.catalogue.of("serviceaccounts"), name, {"metadata": {"name": "default"}})

    def token(self, namespace: str, account: str) -> str:
        """Returns a token of a service account."""
        token = f"token-{namespace}-{account}"
        self.authority.admit(token, service_account(namespace, account))
        return token

    def user_token(self, name: str, *groups: str) -> str:
        """Returns a token of a person."""
        self.authority.admit(f"token-{name}", User(name, (*groups, "system:authenticated")))
        return f"token-{name}"

    def serve(self, resource: Resource) -> None:
        """Serves a custom resource, which is only stored and watched."""
        self.catalogue.add(replace(resource, foreign=True))

    def compact(self) -> None:
        """Forgets past versions: requests for earlier versions and tokens get 410 Gone from now on."""
        self.store.compact()

    def preempt(self, namespace: str, pod: str) -> None:
        """Removes a pod as the scheduler does for a pod of higher priority."""
        text = "default-scheduler: preempting to accommodate a higher priority pod"
        self.nodes.disrupt((namespace, pod), "PreemptionByScheduler", text)
        self.registry.delete(self.catalogue.of("pods"), (namespace, pod), Deletion())

    def read(self, plural: str, name: str, namespace: str = "default", group: str = "") -> dict[str, Any] | None:
        """Returns an object without a request over HTTP; None if there is none."""
        resource = self.catalogue.of(plural, group)
        found = self.store.get(resource, (namespace if resource.namespaced else "", name))
        return None if found is None else found.copy()

    def pods_of(self, job: str, namespace: str = "default") -> list[dict[str, Any]]:
        """Returns the pods of a Job, the oldest first."""
        shelf = self.store.shelf(self.catalogue.of("pods"))
        with self.store.changed:
            keys = shelf.by_label.get(("batch.kubernetes.io/job-name", job), set())
            found = [shelf.objects[key] for key in keys if key[0] == namespace]
        return [each.copy() for each in sorted(found, key=lambda each: each.data["metadata"]["creationTimestamp"])]

    def settle(self) -> None:
        """Waits until no controller has anything to do at the moment."""
        eventually(lambda: all(each.idle() for each in self._loops) and self._quiet(), "the cluster is at rest")

    def _quiet(self) -> bool:
        return all(each.idle() for each in self._loops)
