"""A test double of a Kubernetes cluster: an API server, its controllers, and kubelets that run real processes.

For machines that cannot have a cluster. Sparring's Kubernetes engine is tested against it; nothing in `orchestrator/`
imports it.

    with Cluster(Commands(folder), (Node(gpus=1),)) as cluster:
        api = ApiClient(Configuration(host=cluster.url))

What is faithful, each with a test that names the page of the Kubernetes documentation it follows:

- **Objects**: uid, resourceVersion, generation, finalizers, graceful deletion, owner references with background,
  foreground and orphan deletion; batch/v1 Jobs orphan their pods unless a policy is given. Optimistic locking; 404,
  409, 410, 422 with causes, 400 for what cannot be read, 401 and 403 by roles. Bodies are checked against the OpenAPI
  schemas of a chosen minor version, then against the rules that no schema holds, as far as Jobs and Pods need them.
- **Lists and watches**: label and field selectors, pages at one revision, expiry, bookmarks, initial events, time-outs.
- **Patches**: JSON, merge, strategic merge. `kubectl get`, `apply` (client-side) and `delete` work.
- **The Job controller**: one pod per completion, suspension, pod failure policy, backoff limit, deadline, time to live,
  pod replacement, counting by finalizer, FailureTarget and SuccessCriteriaMet before Failed and Complete.
- **Scheduler, kubelets, nodes**: requests against allocatable, taints, node selectors, claims; pods that a kubelet does
  not admit (pkg/kubelet, `rejectPod`); init containers, container states, phases, termination messages, image pulls
  that fail, OOMKilled, node-pressure eviction, eviction by the API, preemption, lost nodes, taint-based eviction, the
  pod garbage collector; quotas, events with their real reasons.

What differs, so that tests are not misled:

- Unknown fields are refused if a request does not say what to do with them. A real server drops them with a warning, as
  `Settings(unknown="Warn")` does.
- Requests without a token count as the administrator's; `Settings(want_token=True)` makes them anonymous.
- Resource versions grow by one; a client must not rely on that.

What is left out: TLS, protobuf, CBOR, tables, server-side apply (415), managedFields, exec, attach, portforward,
following logs, Indexed Jobs, every restartPolicy but Never, sidecar containers (all 422), probes, lifecycle hooks,
services, network policy enforcement, volumes that are missing, disruption budgets, priorities in the queue, topology,
affinity other than nodeSelector and nodes' names, LimitRange and Pod Security admission, a PUT that creates.
Deployments and other kinds that do not concern Jobs are only stored. A patch of the status cannot change metadata.
"""

from tests.kubernetes_api.clock import ManualClock, SystemClock, eventually
from tests.kubernetes_api.cluster import Cluster, Settings
from tests.kubernetes_api.context import Timings
from tests.kubernetes_api.nodes import Node
from tests.kubernetes_api.processes import Commands, Fakes
from tests.kubernetes_api.resources import Resource
from tests.kubernetes_api.schemas import versions

__all__ = [
    "Cluster",
    "Commands",
    "Fakes",
    "ManualClock",
    "Node",
    "Resource",
    "Settings",
    "SystemClock",
    "Timings",
    "eventually",
    "versions",
]
