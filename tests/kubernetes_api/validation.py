"""Rules that no schema holds: names, limits, what belongs together, and what may never change.

Object Names and IDs; Labels and Selectors, "Syntax and character set"; Jobs, "Pod template", "Pod failure policy" and
"Mutable Scheduling Directives"; Pods, "Pod update and replacement". Causes and messages are worded as the server's.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from .quantity import amount
from .selectors import from_object
from .status import Cause

_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_PATH = re.compile(r"^(?!\.{1,2}$)[^/%]+$")
_WORD = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
LABEL_NAMED = {"Namespace"}
PATH_NAMED = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
SCHEDULING = ("nodeSelector", "affinity", "tolerations", "schedulingGates")
"""The fields of a suspended Job's pod template that may change (Jobs, "Mutable Scheduling Directives")."""
POD_MUTABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds")
_POD_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _wrong(field: str, value: Any, why: str) -> Cause:
    return Cause("FieldValueInvalid", field, f"Invalid value: {json.dumps(value)}: {why}")


def metadata(kind: str, body: dict[str, Any]) -> Iterator[Cause]:
    """Yields what is wrong with an object's name, labels and annotations."""
    held = body["metadata"]
    name = held["name"]
    if kind in PATH_NAMED:
        fits, why = bool(_PATH.match(name)), "may not contain '/' or '%'"
    elif kind in LABEL_NAMED:
        fits, why = bool(_LABEL.match(name)) and len(name) <= 63, "a lowercase RFC 1123 label must consist of [-a-z0-9]"
    else:
        fits = bool(_SUBDOMAIN.match(name)) and len(name) <= 253
        why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
    if not fits:
        yield _wrong("metadata.name", name, why)
    for key, value in (held.get("labels") or {}).items():
        yield from _pair("metadata.labels", key, value)
    annotations = held.get("annotations") or {}
    for key in annotations:
        yield from _pair("metadata.annotations", key, "")
    if sum(len(key) + len(value) for key, value in annotations.items()) > 2**18:
        yield Cause("FieldValueTooLong", "metadata.annotations", "Too long: may not be more than 262144 bytes")


def _pair(field: str, key: str, value: str) -> Iterator[Cause]:
    prefix, slash, word = key.rpartition("/")
    if not word or not _WORD.match(word) or (slash and not _SUBDOMAIN.match(prefix)):
        yield _wrong(field, key, "a qualified name must consist of alphanumeric characters, '-', '_' or '.'")
    if not _WORD.match(value):
        yield _wrong(field, value, "a valid label must be an empty string or consist of alphanumeric characters")


def _pod_spec(spec: dict[str, Any], place: str) -> Iterator[Cause]:
    containers = spec.get("containers") or []
    if not containers:
        yield Cause("FieldValueRequired", f"{place}.containers", "Required value")
    names: set[str] = set()
    volumes = {each["name"] for each in spec.get("volumes") or []}
    for part, held in (("initContainers", spec.get("initContainers") or []), ("containers", containers)):
        for index, container in enumerate(held):
            here = f"{place}.{part}[{index}]"
            if container.get("restartPolicy"):
                yield _wrong(f"{here}.restartPolicy", container["restartPolicy"], "this test server has no sidecars")
            if not container.get("image"):
                yield Cause("FieldValueRequired", f"{here}.image", "Required value")
            if container["name"] in names:
                yield Cause("FieldValueDuplicate", f"{here}.name", f"Duplicate value: {json.dumps(container['name'])}")
            names.add(container["name"])
            for number, mount in enumerate(container.get("volumeMounts") or []):
                if mount["name"] not in volumes:
                    field = f"{here}.volumeMounts[{number}].name"
                    yield Cause("FieldValueNotFound", field, f"Not found: {json.dumps(mount['name'])}")
            yield from _resources(container.get("resources") or {}, f"{here}.resources")


def _resources(resources: dict[str, Any], place: str) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, held in (("limits", limits), ("requests", requests)):
        for value in held.values():
            try:
                amount(value)
            except ValueError as error:
                yield _wrong(f"{place}.{part}", value, str(error))
                return
    for name, value in requests.items():
        if name in limits and amount(value) > amount(limits[name]):
            yield _wrong(
                f"{place}.requests", str(value), f"must be less than or equal to {name} limit of {limits[name]}"
            )
        if "/" in name and amount(limits.get(name, -1)) != amount(value):
            yield _wrong(f"{place}.requests", str(value), f"must be equal to {name} limit of {limits.get(name, 0)}")


def _job_spec(spec: dict[str, Any]) -> Iterator[Cause]:
    yield from _pod_spec(spec["template"]["spec"], "spec.template.spec")
    for name in ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds"):
        if spec.get(name) is not None and spec[name] < 0:
            yield _wrong(f"spec.{name}", spec[name], "must be greater than or equal to 0")
    policy = spec["template"]["spec"]["restartPolicy"]
    place = "spec.template.spec.restartPolicy"
    if policy == "Always":
        yield Cause("FieldValueRequired", place, 'Required value: valid values: "OnFailure", "Never"')
    elif policy != "Never":
        yield _wrong(place, policy, 'this test server restarts no containers: only "Never" is simulated')
    if spec["completionMode"] != "NonIndexed":
        yield _wrong("spec.completionMode", spec["completionMode"], "this test server simulates NonIndexed Jobs only")
    labels = spec["template"].get("metadata") or {}
    for key, value in (labels.get("labels") or {}).items():
        yield from _pair("spec.template.labels", key, value)
    if not from_object(spec.get("selector")).matches({"metadata": labels}):
        text = "`selector` does not match template `labels`"
        yield _wrong("spec.template.metadata.labels", labels.get("labels"), text)
    if spec.get("podFailurePolicy"):
        yield from _failure_policy(spec)


def _failure_policy(spec: dict[str, Any]) -> Iterator[Cause]:
    place = "spec.podFailurePolicy.rules"
    inside = spec["template"]["spec"]
    names = [each["name"] for each in [*(inside.get("initContainers") or []), *inside["containers"]]]
    if spec["podReplacementPolicy"] != "Failed":
        message = f'Unsupported value: {json.dumps(spec["podReplacementPolicy"])}: supported values: "Failed"'
        yield Cause("FieldValueNotSupported", "spec.podReplacementPolicy", message)
    rules = spec["podFailurePolicy"]["rules"]
    if len(rules) > 20:
        yield Cause("FieldValueTooMany", place, f"Too many: {len(rules)}: must have at most 20 items")
    for index, rule in enumerate(rules):
        here, codes = f"{place}[{index}]", rule.get("onExitCodes")
        if bool(codes) == bool(rule.get("onPodConditions")):
            yield _wrong(here, rule, "specifying one of OnExitCodes and OnPodConditions is required, not both")
        if rule["action"] not in {"FailJob", "Ignore", "Count"}:
            message = f'Unsupported value: {json.dumps(rule["action"])}: supported values: "Count", "FailJob", "Ignore"'
            yield Cause("FieldValueNotSupported", f"{here}.action", message)
        if not codes:
            continue
        values = codes["values"]
        if codes.get("containerName") not in (None, *names):
            yield _wrong(
                f"{here}.onExitCodes.containerName", codes["containerName"], "must be one of the container names"
            )
        if values != sorted(set(values)):
            yield _wrong(f"{here}.onExitCodes.values", values, "must be ordered and without duplicates")
        if codes["operator"] == "In" and 0 in values:
            yield _wrong(f"{here}.onExitCodes.values", 0, "must not be 0 for the In operator")


def created(kind: str, body: dict[str, Any]) -> list[Cause]:
    """Returns what is wrong with a new object, whose defaults are filled in."""
    found = list(metadata(kind, body))
    if kind == "Job":
        found += _job_spec(body["spec"])
    elif kind == "Pod":
        found += _pod_spec(body["spec"], "spec")
        if (policy := body["spec"]["restartPolicy"]) != "Never":
            why = 'this test server restarts no containers: only "Never" is simulated'
            found.append(_wrong("spec.restartPolicy", policy, why))
    elif kind == "ResourceQuota":
        found += _hard((body.get("spec") or {}).get("hard") or {})
    return found


def _hard(hard: dict[str, Any]) -> Iterator[Cause]:
    for name, value in hard.items():
        try:
            amount(value)
        except ValueError as error:
            yield _wrong(f"spec.hard[{name}]", value, str(error))


def updated(kind: str, body: dict[str, Any], before: dict[str, Any]) -> list[Cause]:
    """Returns what is wrong with a changed object, compared with the one that it replaces."""
    found = created(kind, body)
    if body["metadata"].get("deletionTimestamp"):
        added = set(body["metadata"].get("finalizers") or ()) - set(before["metadata"].get("finalizers") or ())
        if added:
            why = "no new finalizers can be added if the object is being deleted, found new finalizers"
            found.append(Cause("FieldValueForbidden", "metadata.finalizers", f"Forbidden: {why} {sorted(added)}"))
    if kind == "Job":
        found += _job_update(body, before)
    elif kind == "Pod":
        found += _pod_update(body["spec"], before["spec"])
    elif kind in {"ConfigMap", "Secret"} and before.get("immutable") and body.get("data") != before.get("data"):
        found.append(Cause("FieldValueForbidden", "data", "Forbidden: field is immutable when `immutable` is set"))
    return found


def _job_update(body: dict[str, Any], before: dict[str, Any]) -> Iterator[Cause]:
    new, old = body["spec"], before["spec"]
    for name in ("completions", "selector", "completionMode", "podFailurePolicy", "managedBy"):
        if new.get(name) != old.get(name):
            yield _wrong(f"spec.{name}", new.get(name), "field is immutable")
    free = old.get("suspend") and not (before.get("status") or {}).get("startTime")
    if _template(new["template"], directives=bool(free)) != _template(old["template"], directives=bool(free)):
        yield _wrong("spec.template", "...", "field is immutable")


def _template(template: dict[str, Any], *, directives: bool) -> Any:
    if not directives:
        return template
    return {name: value for name, value in template["spec"].items() if name not in SCHEDULING}


def _pod_update(new: dict[str, Any], old: dict[str, Any]) -> Iterator[Cause]:
    def fixed(spec: dict[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in spec.items() if name not in POD_MUTABLE}
        for part in ("containers", "initContainers"):
            rest[part] = [{key: each[key] for key in each if key != "image"} for each in spec.get(part) or []]
        return rest

    if fixed(new) != fixed(old) or any(each not in new.get("tolerations", []) for each in old.get("tolerations", [])):
        yield Cause("FieldValueForbidden", "spec", f"Forbidden: {_POD_TEXT}")
