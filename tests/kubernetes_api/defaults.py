"""The defaults that the server fills in for missing fields.

Defaults are those of the API reference of each field; a Job's selector and labels are generated as "Specifying your
own Pod selector" (Jobs) tells; tolerations of 300 s for `not-ready` and `unreachable` come from the admission plug-in
DefaultTolerationSeconds (Taints and Tolerations, "Taint based Evictions").
"""

from typing import Any

UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"


def _pod_spec(spec: dict[str, Any]) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        latest = "@" not in container.get("image", "") and container.get("image", "").endswith(":latest")
        untagged = "@" not in container.get("image", "") and ":" not in container.get("image", "").rpartition("/")[2]
        container.setdefault("imagePullPolicy", "Always" if latest or untagged else "IfNotPresent")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        resources = container.setdefault("resources", {})
        if limits := resources.get("limits"):
            resources["requests"] = dict(limits) | (resources.get("requests") or {})


def quality(spec: dict[str, Any]) -> str:
    """Returns the QoS class of a pod (Pod Quality of Service Classes)."""
    found = [each.get("resources") or {} for each in [*(spec.get("initContainers") or []), *spec["containers"]]]
    if not any(each.get("requests") or each.get("limits") for each in found):
        return "BestEffort"
    guaranteed = all(
        name in (each.get("limits") or {}) and (each.get("requests") or {}).get(name) == each["limits"][name]
        for each in found
        for name in ("cpu", "memory")
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _pod(pod: dict[str, Any], toleration: int) -> None:
    spec = pod["spec"]
    _pod_spec(spec)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    held = spec.setdefault("tolerations", [])
    for key in (NOT_READY, UNREACHABLE):
        if not any(each.get("key") in {key, None} and each.get("effect") in {"NoExecute", None} for each in held):
            timed = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": toleration}
            held.append(timed)
    pod["status"] = {"phase": "Pending", "qosClass": quality(spec)}


def _job(job: dict[str, Any]) -> None:
    spec, uid, name = job["spec"], job["metadata"]["uid"], job["metadata"]["name"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "Failed" if policy else "TerminatingOrFailed")
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")
    if not spec["manualSelector"]:
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        for key in ("job-name", "batch.kubernetes.io/job-name"):
            labels.setdefault(key, name)
        for key in ("controller-uid", "batch.kubernetes.io/controller-uid"):
            labels.setdefault(key, uid)
        selected = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        selected.setdefault("batch.kubernetes.io/controller-uid", uid)
    _pod_spec(spec["template"]["spec"])
    job["status"] = {}


def fill(kind: str, body: dict[str, Any], toleration: int = 300) -> None:
    """Fills in the defaults of a new object whose name and uid are set; its status becomes the first one."""
    if kind == "Pod":
        _pod(body, toleration)
    elif kind == "Job":
        _job(body)
    elif kind == "Namespace":
        body.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        body["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = body["metadata"]["name"]
        body["status"] = {"phase": "Active"}
    elif kind == "PersistentVolumeClaim":
        body["spec"].setdefault("volumeMode", "Filesystem")
        body["status"] = {"phase": "Pending"}
    elif kind == "ResourceQuota":
        body["status"] = {}
    elif kind == "Secret":
        body.setdefault("type", "Opaque")
    elif kind in {"Node", "PersistentVolume"}:
        body.setdefault("spec", {})
        body.setdefault("status", {})
