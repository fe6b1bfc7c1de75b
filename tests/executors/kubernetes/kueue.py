"""The part of Kueue's schemas that k8s/overlays/kueue uses, and nothing more: an unknown field is an error.

Written from the reference of the API (https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/): `ResourceFlavorSpec`,
`ClusterQueueSpec` with `ResourceGroup`, `FlavorQuotas` and `ResourceQuota`, and `LocalQueueSpec`. What the server's
validation adds: a resource is covered by one group, and each flavour gives a quota for exactly the covered resources,
in their order.
"""

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

VERSION = "kueue.x-k8s.io/v1beta2"
_NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 253}
_QUANTITY = {"type": ["string", "integer"], "pattern": r"^([0-9]+|[0-9]*\.[0-9]+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def _list(items: dict[str, Any], least: int = 0, most: int = 16) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


_TOLERATION = _object(
    [],
    key={"type": "string"},
    operator={"enum": ["Exists", "Equal"]},
    value={"type": "string"},
    effect={"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
    tolerationSeconds={"type": "integer"},
)
_TAINT = _object(["key", "effect"], key={"type": "string"}, value={"type": "string"}, effect={"type": "string"})
_QUOTA = _object(
    ["name", "nominalQuota"],
    name={"type": "string"},
    nominalQuota=_QUANTITY,
    borrowingLimit=_QUANTITY,
    lendingLimit=_QUANTITY,
)
_FLAVOUR = _object(["name", "resources"], name=_NAME, resources=_list(_QUOTA, 1))
_GROUP = _object(
    ["coveredResources", "flavors"], coveredResources=_list({"type": "string"}, 1), flavors=_list(_FLAVOUR, 1)
)
SPECS = {
    "ResourceFlavor": _object(
        [],
        nodeLabels=_TEXTS | {"maxProperties": 8},
        nodeTaints=_list(_TAINT, most=8),
        tolerations=_list(_TOLERATION, most=8),
    ),
    "ClusterQueue": _object(
        ["resourceGroups"],
        namespaceSelector=_object([], matchLabels=_TEXTS, matchExpressions={"type": "array"}),
        resourceGroups=_list(_GROUP),
        queueingStrategy={"enum": ["StrictFIFO", "BestEffortFIFO"]},
        cohortName=_NAME,
    ),
    "LocalQueue": _object(["clusterQueue"], clusterQueue=_NAME),
}


def problems(body: dict[str, Any]) -> Iterator[str]:
    """Yields what is wrong with an object of Kueue."""
    if body["apiVersion"] != VERSION:
        yield f"apiVersion: {body['apiVersion']} is not {VERSION}"
    yield from (error.message for error in Draft202012Validator(SPECS[body["kind"]]).iter_errors(body["spec"]))
    covered: set[str] = set()
    for group in body["spec"].get("resourceGroups", ()) if body["kind"] == "ClusterQueue" else ():
        names = group.get("coveredResources", [])
        yield from (f"{name} is covered twice" for name in names if name in covered)
        covered |= set(names)
        for flavour in group.get("flavors", ()):
            if [each.get("name") for each in flavour.get("resources", ())] != names:
                yield f"{flavour.get('name')}: quotas are not those of coveredResources, in their order"
