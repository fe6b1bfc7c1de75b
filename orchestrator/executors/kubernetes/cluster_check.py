"""The checks of `sparring cluster check` that only read a cluster. `run_probes` has the checks that create pods.

A cluster's administrator gives few rights. A check that may not read its object is reported as absent, not as OK.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol

from orchestrator.domain.text import printable
from orchestrator.executors.kubernetes.api import CONTROLLER_RIGHTS as NEEDED
from orchestrator.executors.kubernetes.api import PODS, Api, Kind, Right
from orchestrator.executors.kubernetes.probe_job import RECORD_NAME
from orchestrator.executors.kubernetes.quantities import parse_quantity
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.sandboxes.base import Check, CheckStatus

TESTED_MINOR_VERSIONS = (35, 36, 37)
"""The minor versions against whose schemas the tests validate every object."""
OLDEST_MINOR_VERSION = 31
"""The first minor version in which a Job's failure policy is generally available."""
APPLY_OVERLAY_REMEDY = "apply an overlay of k8s/ (`sparring copy k8s`), as `sparring explain run-on-kubernetes` says"
_POD_SECURITY_LABEL = "pod-security.kubernetes.io/enforce"


CLAIMS = Kind("", "persistentvolumeclaims")
CONFIG_MAPS = Kind("", "configmaps")
NAMESPACES = Kind("", "namespaces", namespaced=False)
NODES = Kind("", "nodes", namespaced=False)
POLICIES = Kind("networking.k8s.io", "networkpolicies")
PRIORITIES = Kind("scheduling.k8s.io", "priorityclasses", namespaced=False)
QUEUES = Kind("kueue.x-k8s.io", "localqueues", version="v1beta2")
QUOTAS = Kind("", "resourcequotas")
RUNTIMES = Kind("node.k8s.io", "runtimeclasses", namespaced=False)
REVIEWS = Kind("authorization.k8s.io", "selfsubjectaccessreviews", namespaced=False)

CHECK_RIGHTS = (
    Right(CLAIMS, ("get",)),
    Right(CONFIG_MAPS, ("create", "get", "update")),
    Right(NAMESPACES, ("get",)),
    Right(POLICIES, ("list",)),
    Right(QUEUES, ("get",)),
    Right(QUOTAS, ("list",)),
)
"""The rights of a check beyond the controller's, within the namespace: it reads, and stores the result of a probe."""


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """One verb on one kind, or on one object of it, in the contest's namespace or in all of them."""

    verb: str
    kind: Kind
    subresource: str = ""
    cluster_wide: bool = False
    name: str = ""

    def __str__(self) -> str:
        child = f"/{self.subresource}" if self.subresource else ""
        group = f".{self.kind.group}" if self.kind.group else ""
        return f"{self.verb} {self.kind.plural}{group}{child}" + (" everywhere" if self.cluster_wide else "")


_RBAC = "rbac.authorization.k8s.io"
EXCESS_RIGHTS = (
    AccessRequest("get", Kind("", "secrets")),
    AccessRequest("list", Kind("", "secrets")),
    AccessRequest("create", PODS),
    AccessRequest("create", PODS, "exec"),
    AccessRequest("create", Kind("", "serviceaccounts"), "token"),
    AccessRequest("create", Kind(_RBAC, "rolebindings")),
    AccessRequest("delete", POLICIES),
    AccessRequest("list", Kind("", "secrets"), cluster_wide=True),
    AccessRequest("create", Kind(_RBAC, "clusterrolebindings", namespaced=False), cluster_wide=True),
)
"""Rights that a controller does not need, and that would help an attacker who takes it over."""


class ClusterApi(Api, Protocol):
    """The API, with its server's version."""

    def server_version(self) -> str:
        """Returns the server's version, such as `v1.37.0`."""
        ...


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a contest needs of its cluster. `resources` are the requests of one match's pod, as a quota counts them."""

    settings: ClusterSettings
    runtime_class: str | None = None
    resources: Mapping[str, Fraction] = field(default_factory=dict)
    gpus: int = 0

    @classmethod
    def from_pod_spec(cls, settings: ClusterSettings, spec: Mapping[str, Any]) -> "Requirements":
        """Returns the requirements of matches with pods of this specification."""
        needs = {"pods": Fraction(1), "count/pods": Fraction(1), "count/jobs.batch": Fraction(1)}
        for container in spec["containers"]:
            for resource, text in container["resources"]["requests"].items():
                amount = parse_quantity(text) or Fraction(0)
                for name in (f"requests.{resource}", f"limits.{resource}", resource):
                    needs[name] = needs.get(name, Fraction(0)) + amount
        gpus = int(needs.get(settings.gpu, 0))
        return cls(settings, spec.get("runtimeClassName"), needs, gpus)


def check_cluster(cluster: ClusterApi, wanted: Requirements) -> Iterator[Check]:
    """Yields the checks that only read the cluster."""
    yield check_version(cluster)
    yield from check_rights(cluster, wanted)
    yield check_excess_rights(cluster, wanted)
    looks: list[tuple[str, str, Kind, Callable[[Api, Requirements], Check]]] = [
        ("namespace", "get", NAMESPACES, check_namespace),
        ("volume", "get", CLAIMS, check_claim),
        ("quota", "list", QUOTAS, check_quota),
        ("network policies", "list", POLICIES, check_policies),
        ("runtime class", "get", RUNTIMES, check_runtime_class),
        ("priority class", "get", PRIORITIES, check_priority_class),
        ("GPUs", "list", NODES, check_gpus),
        ("queue", "get", QUEUES, check_queue),
    ]
    for name, verb, kind, look in looks:
        if idle := _skip_reason(name, wanted):
            yield Check(name, CheckStatus.ABSENT, idle)
        elif not is_allowed(cluster, AccessRequest(verb, kind), wanted.settings.namespace):
            detail = f"not checked: these credentials have no right to {verb} {kind.plural}"
            yield Check(name, CheckStatus.ABSENT, detail, "ask an administrator of the cluster to run this command")
        else:
            yield look(cluster, wanted)


def is_allowed(cluster: Api, request: AccessRequest, namespace: str) -> bool:
    """Returns whether these credentials have a right (SelfSubjectAccessReview)."""
    attributes = {"verb": request.verb, "group": request.kind.group, "resource": request.kind.plural}
    if request.name or request.kind is NAMESPACES:
        attributes["name"] = request.name or namespace
    if not request.cluster_wide and (request.kind.namespaced or request.kind is NAMESPACES):
        attributes["namespace"] = namespace
    if request.subresource:
        attributes["subresource"] = request.subresource
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    answer = cluster.create(REVIEWS, body | {"spec": {"resourceAttributes": attributes}})
    return bool(((answer or {}).get("status") or {}).get("allowed"))


def _skip_reason(name: str, requirements: Requirements) -> str:
    requests = {
        "runtime class": requirements.runtime_class,
        "priority class": requirements.settings.priority_class,
        "GPUs": requirements.gpus,
        "queue": requirements.settings.queue,
    }
    return "" if requests.get(name, True) else "not checked: the contest uses none"


def check_version(cluster: ClusterApi) -> Check:
    """Checks whether the server has a tested version."""
    version = cluster.server_version()
    tested, match = (
        f"1.{TESTED_MINOR_VERSIONS[0]} to 1.{TESTED_MINOR_VERSIONS[-1]}",
        re.match(r"v1\.([0-9]{1,4})", version),
    )
    if match is None:
        return Check("server", CheckStatus.WARN, f"version {printable(version)} is unknown", f"use Kubernetes {tested}")
    if int(match[1]) < OLDEST_MINOR_VERSION:
        return Check("server", CheckStatus.FAIL, f"{printable(version)} is too old", f"use Kubernetes {tested}")
    if int(match[1]) not in TESTED_MINOR_VERSIONS:
        return Check("server", CheckStatus.WARN, f"{printable(version)}; tested are {tested}", f"prefer {tested}")
    return Check("server", CheckStatus.OK, printable(version))


def check_rights(cluster: Api, wanted: Requirements) -> Iterator[Check]:
    """Checks the rights that a controller and a check with these credentials need: one line for each resource."""
    for right in (*NEEDED, *CHECK_RIGHTS):
        if right.kind is QUEUES and wanted.settings.queue is None:
            continue
        requests = [AccessRequest(verb, right.kind, name=_object_name(verb, right.kind)) for verb in right.verbs]
        missing = [request.verb for request in requests if not is_allowed(cluster, request, wanted.settings.namespace)]
        name = f"right to {right.kind.plural}"
        if not missing:
            yield Check(name, CheckStatus.OK, ", ".join(right.verbs))
        elif right in NEEDED or right.kind is CONFIG_MAPS:
            yield Check(name, CheckStatus.FAIL, f"missing: {', '.join(missing)}", APPLY_OVERLAY_REMEDY)
        else:
            yield Check(
                name,
                CheckStatus.WARN,
                f"missing: {', '.join(missing)}; some of the checks below cannot run without it",
                APPLY_OVERLAY_REMEDY,
            )


def _object_name(verb: str, kind: Kind) -> str:
    """Returns the name of the only object of a kind that is used; an object to be created has no name in a review."""
    return RECORD_NAME if kind is CONFIG_MAPS and verb != "create" else ""


def check_excess_rights(cluster: Api, wanted: Requirements) -> Check:
    """Checks whether these credentials have rights that no controller needs."""
    excess = [str(request) for request in EXCESS_RIGHTS if is_allowed(cluster, request, wanted.settings.namespace)]
    if not excess:
        return Check("excess rights", CheckStatus.OK, f"these credentials have none of the {len(EXCESS_RIGHTS)} tested")
    remedy = "run this command with the controller's own account: kubectl exec deploy/sparring-controller -- ..."
    return Check("excess rights", CheckStatus.WARN, f"these credentials may {', '.join(excess)}", remedy)


def check_namespace(cluster: Api, wanted: Requirements) -> Check:
    """Checks whether the namespace exists and admits restricted pods only."""
    name = wanted.settings.namespace
    found = cluster.read(NAMESPACES, name)
    if found is None:
        return Check("namespace", CheckStatus.FAIL, f"there is no namespace {name}", APPLY_OVERLAY_REMEDY)
    labels = found["metadata"].get("labels") or {}
    level, pinned = labels.get(_POD_SECURITY_LABEL), labels.get(f"{_POD_SECURITY_LABEL}-version", "latest")
    if level != "restricted":
        remedy = f"kubectl label namespace {name} {_POD_SECURITY_LABEL}=restricted"
        return Check("namespace", CheckStatus.WARN, f"{name} enforces {printable(level or 'nothing')}", remedy)
    if pinned == "latest":
        remedy = f"kubectl label namespace {name} {_POD_SECURITY_LABEL}-version=v1.{TESTED_MINOR_VERSIONS[0]}"
        detail = f"{name} enforces restricted in its latest version, which changes when the cluster is upgraded"
        return Check("namespace", CheckStatus.WARN, detail, remedy)
    return Check("namespace", CheckStatus.OK, f"{name} enforces restricted as of {printable(pinned)}")


def check_claim(cluster: Api, wanted: Requirements) -> Check:
    """Checks whether the shared volume exists, and whether several nodes can write to it."""
    name = wanted.settings.claim
    claim = cluster.read(CLAIMS, name)
    if claim is None:
        return Check(
            "volume", CheckStatus.FAIL, f"there is no claim {name}", f"{APPLY_OVERLAY_REMEDY}, or set `cluster.claim`"
        )
    status = claim.get("status") or {}
    modes, phase = status.get("accessModes") or claim["spec"].get("accessModes") or [], status.get("phase")
    detail = f"{name}, {printable(', '.join(modes))}, {printable(str(phase))}"
    if phase == "Lost":
        return Check("volume", CheckStatus.FAIL, detail, "its volume is gone: restore it, or create another claim")
    if phase != "Bound":
        remedy = f"if it is not Bound after the probes, `kubectl describe pvc {name}` says what it waits for"
        return Check("volume", CheckStatus.WARN, detail, remedy)
    if "ReadWriteMany" not in modes:
        remedy = "if pods run on more than one node, use a ReadWriteMany storage class"
        return Check("volume", CheckStatus.WARN, detail, remedy)
    return Check("volume", CheckStatus.OK, detail)


def check_quota(cluster: Api, wanted: Requirements) -> Check:
    """Checks whether the pod of a match fits into the namespace's quota, in principle and now."""
    needs, capacity = wanted.resources, None
    for quota in cluster.search(QUOTAS).items:
        hard, used = (quota.get("spec") or {}).get("hard") or {}, (quota.get("status") or {}).get("used") or {}
        for resource, text in hard.items():
            need, limit = needs.get(resource), parse_quantity(text)
            if not need or limit is None:
                continue
            if need > limit:
                hard_limit = printable(str(text))
                detail = f"a match asks for {_format_number(need)} of {printable(resource)}, the quota is {hard_limit}"
                return Check("quota", CheckStatus.FAIL, detail, "raise the quota, or lower the contest's `limits`")
            fits = int((limit - (parse_quantity(used.get(resource, 0)) or 0)) / need)
            capacity = fits if capacity is None else min(capacity, fits)
    if capacity is None:
        return Check("quota", CheckStatus.ABSENT, "the namespace has no quota", APPLY_OVERLAY_REMEDY)
    if capacity < 1:
        remedy = "wait until running pods have ended, or raise the quota"
        return Check("quota", CheckStatus.WARN, "no match fits into the quota now", remedy)
    note = (
        f"; `cluster.max_jobs` is {wanted.settings.max_jobs}, and matches above the quota wait"
        if capacity < wanted.settings.max_jobs
        else ""
    )
    return Check("quota", CheckStatus.OK, f"{capacity} matches fit at a time{note}")


def _format_number(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):g}"


def check_policies(cluster: Api, _: Requirements) -> Check:
    """Checks whether a network policy denies all traffic of all pods; the network probe tests its enforcement."""
    policies = cluster.search(POLICIES).items
    for policy in policies:
        spec = policy["spec"]
        denies_all = (
            not any((spec.get("podSelector") or {}).values()) and not spec.get("ingress") and not spec.get("egress")
        )
        if denies_all and {"Ingress", "Egress"} <= set(spec.get("policyTypes") or ()):
            return Check(
                "network policies", CheckStatus.OK, f"{printable(policy['metadata']['name'])} denies all traffic"
            )
    return Check(
        "network policies",
        CheckStatus.FAIL,
        f"none of the {len(policies)} policies denies all traffic to and from all pods",
        APPLY_OVERLAY_REMEDY,
    )


def check_runtime_class(cluster: Api, wanted: Requirements) -> Check:
    """Checks whether the players' RuntimeClass exists."""
    remedy = "apply k8s/components/runtimes, or set `cluster.runtime_class` to a class that exists"
    return _check_exists(cluster, "runtime class", RUNTIMES, wanted.runtime_class or "", remedy)


def check_priority_class(cluster: Api, wanted: Requirements) -> Check:
    """Checks whether the pods' PriorityClass exists."""
    remedy = "create it, or remove `cluster.priority_class` from the contest file"
    return _check_exists(cluster, "priority class", PRIORITIES, wanted.settings.priority_class or "", remedy)


def _check_exists(cluster: Api, check_name: str, kind: Kind, name: str, remedy: str) -> Check:
    if cluster.read(kind, name) is None:
        return Check(check_name, CheckStatus.FAIL, f"the cluster has no {check_name} {name}", remedy)
    return Check(check_name, CheckStatus.OK, name)


def check_gpus(cluster: Api, wanted: Requirements) -> Check:
    """Checks whether a node on which the pods may run has as many GPUs as the largest pod takes."""
    name, selector = wanted.settings.gpu, wanted.settings.node_selector
    nodes = cluster.search(NODES, ",".join(f"{key}={value}" for key, value in selector.items())).items
    if not nodes:
        detail = "no node has the labels of `cluster.node_selector` now"
        return Check("GPUs", CheckStatus.WARN, detail, "correct it, unless an autoscaler adds such nodes for a pod")
    counts = [
        int(parse_quantity(((node.get("status") or {}).get("allocatable") or {}).get(name, 0)) or 0) for node in nodes
    ]
    detail = f"{sum(counts)} of {name} on {sum(map(bool, counts))} of {len(nodes)} nodes"
    most = max(counts, default=0)
    if most and most >= wanted.gpus:
        return Check("GPUs", CheckStatus.OK, detail)
    if most:
        detail += f", at most {most} on one; a pod with an attack and the defence that it queries needs {wanted.gpus}"
        return Check("GPUs", CheckStatus.FAIL, detail, "add nodes with more GPUs, or correct `cluster.node_selector`")
    return Check(
        "GPUs", CheckStatus.FAIL, detail, "install the device plug-in, or correct `cluster.gpu` and `node_selector`"
    )


def check_queue(cluster: Api, wanted: Requirements) -> Check:
    """Checks whether Kueue has the queue and lets its Jobs start."""
    name = wanted.settings.queue or ""
    queue = cluster.read(QUEUES, name) or cluster.read(replace(QUEUES, version="v1beta1"), name)
    if queue is None:
        remedy = "install Kueue and create the queue as k8s/overlays/kueue does, or remove `cluster.queue`"
        return Check("queue", CheckStatus.FAIL, f"there is no LocalQueue {name}", remedy)
    for condition in (queue.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Active" and condition.get("status") != "True":
            why = printable(condition.get("message", ""))
            remedy = f"`kubectl describe localqueue {name}` shows more"
            return Check("queue", CheckStatus.FAIL, f"{name} is not active: {why}", remedy)
    return Check("queue", CheckStatus.OK, name)
