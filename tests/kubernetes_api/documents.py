"""Documents that are only read: discovery, version, health, and as much OpenAPI as `kubectl` wants before it validates.

`kubectl apply` asks in /openapi/v3 whether PATCH takes `fieldValidation`; then it leaves validation to the server.
"""

from typing import Any

from .resources import Catalogue, Resource, group_of


def document(catalogue: Catalogue, version: str, path: str) -> dict[str, Any] | None:
    """Returns the document at a path, if there is one."""
    steps = [step for step in path.split("/") if step]
    major, minor = version.split(".")[:2]
    fixed: dict[tuple[str, ...], Any] = {
        ("version",): {"major": major, "minor": minor, "gitVersion": f"v{version}", "platform": "linux/amd64"},
        ("api",): catalogue.versions(),
        ("apis",): catalogue.groups(),
        ("healthz",): {}, ("livez",): {}, ("readyz",): {},
        ("openapi", "v3"): _index(catalogue),
    }  # fmt: skip
    if tuple(steps) in fixed:
        return fixed[tuple(steps)]
    if steps[:1] == ["api"] and len(steps) == 2:
        return catalogue.resources("", steps[1])
    if steps[:1] == ["apis"] and len(steps) == 2:
        versions = [each.version for each in catalogue.all() if each.group == steps[1]]
        return {"kind": "APIGroup", "apiVersion": "v1"} | group_of(steps[1], versions[0]) if versions else None
    if steps[:1] == ["apis"] and len(steps) == 3:
        return catalogue.resources(steps[1], steps[2])
    if steps[:2] == ["openapi", "v3"]:
        return _paths(catalogue, "/".join(steps[2:]))
    return None


def _root(resource: Resource) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _index(catalogue: Catalogue) -> dict[str, Any]:
    roots = sorted({_root(each) for each in catalogue.all()})
    return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}?hash=0"} for root in roots}}


def _paths(catalogue: Catalogue, root: str) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for each in catalogue.all():
        if _root(each) != root:
            continue
        place = "/namespaces/{namespace}" if each.namespaced else ""
        about = {"group": each.group, "version": each.version, "kind": each.kind}
        parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
        deed = {"parameters": [parameter], "x-kubernetes-group-version-kind": about, "responses": {}}
        found[f"/{root}{place}/{each.plural}"] = {"post": deed}
        found[f"/{root}{place}/{each.plural}/{{name}}"] = {"patch": deed, "put": deed}
    if not found:
        return None
    info = {"title": "Kubernetes", "version": "unversioned"}
    return {"openapi": "3.0.0", "info": info, "paths": found}
