"""The patches that the API takes.

API concepts, "Patch": JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge patch. The last merges lists of
objects by a key that the types of k8s.io/api name (`patchMergeKey`); those of Jobs, Pods and metadata are here, every
other list is replaced as a whole.
"""

from collections.abc import Callable
from typing import Any

from .status import bad_request
from .store import clone

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
KINDS = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)

MERGE_KEYS = {
    "ownerReferences": "uid", "conditions": "type", "containers": "name", "initContainers": "name",
    "volumes": "name", "env": "name", "volumeMounts": "mountPath", "imagePullSecrets": "name", "taints": "key",
    "topologySpreadConstraints": "topologyKey", "hostAliases": "ip", "ports": "containerPort",
}  # fmt: skip
PRIMITIVE = ("finalizers",)
"""Lists of words that a strategic patch adds to."""


def merge(target: Any, patch: Any) -> Any:
    """Applies a merge patch: null removes, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return clone(patch)
    made = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merge(made.get(key), value)
    return made


def strategic(target: Any, patch: Any) -> Any:
    """Applies a strategic merge patch with the directives `$patch`, `$deleteFromPrimitiveList` and `$retainKeys`.

    `$setElementOrder` is read over: it says only how lists are ordered.
    """
    if not isinstance(patch, dict):
        return clone(patch)
    if patch.get("$patch") == "replace":
        return clone({key: value for key, value in patch.items() if key != "$patch"})
    made = dict(target) if isinstance(target, dict) else {}
    if "$retainKeys" in patch:
        made = {key: value for key, value in made.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        directive, _, name = key.partition("/")
        if directive == "$deleteFromPrimitiveList":
            made[name] = [each for each in made.get(name) or [] if each not in value]
        elif not key.startswith("$"):
            _set(made, key, value)
    return made


def _set(made: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        made.pop(key, None)
    elif isinstance(value, list) and key in PRIMITIVE:
        made[key] = list(dict.fromkeys([*(made.get(key) or []), *value]))
    elif isinstance(value, list) and key in MERGE_KEYS and all(isinstance(each, dict) for each in value):
        made[key] = _merged_list(made.get(key) or [], value, MERGE_KEYS[key])
    else:
        made[key] = strategic(made.get(key), value)


def _merged_list(old: list[Any], patch: list[dict[str, Any]], name: str) -> list[Any]:
    if any(each.get("$patch") == "replace" for each in patch):
        return [clone(each) for each in patch if each.get("$patch") != "replace"]
    made = {each.get(name): each for each in old}
    for each in patch:
        if name not in each:
            raise bad_request(f"map: {each} does not contain declared merge key: {name}")
        if each.get("$patch") == "delete":
            made.pop(each[name], None)
        else:
            made[each[name]] = strategic(made.get(each[name]), each)
    return list(made.values())


def json_patch(target: Any, patch: Any) -> Any:
    """Applies the operations of a JSON patch in their order, all or none.

    Raises:
        ApiError: 400 for what is no patch, 422 for an operation that does not fit the object.
    """
    if not isinstance(patch, list) or not all(isinstance(each, dict) and {"op", "path"} <= set(each) for each in patch):
        raise bad_request("error decoding patch: a JSON patch is an array of operations with op and path")
    made = clone(target)
    for each in patch:
        act = OPERATIONS.get(each["op"])
        if act is None:
            raise bad_request(f"Unexpected kind: {each['op']}")
        try:
            made = act(made, each)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            failure = bad_request(f"the server rejected our request due to an error in our request: {each}: {error!r}")
            failure.code, failure.reason = 422, "Invalid"
            raise failure from error
    return made


def _steps(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise ValueError("a path begins with /")
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _find(whole: Any, steps: list[str]) -> Any:
    for step in steps:
        whole = whole[int(step)] if isinstance(whole, list) else whole[step]
    return whole


def _add(whole: Any, path: str, value: Any) -> Any:
    if not path:
        return clone(value)
    *front, last = _steps(path)
    parent = _find(whole, front)
    if not isinstance(parent, list):
        parent[last] = clone(value)
    elif last == "-":
        parent.append(clone(value))
    else:
        if int(last) > len(parent):
            raise IndexError(last)
        parent.insert(int(last), clone(value))
    return whole


def _remove(whole: Any, path: str) -> Any:
    *front, last = _steps(path)
    parent = _find(whole, front)
    del parent[int(last) if isinstance(parent, list) else last]
    return whole


def _replace(whole: Any, each: dict[str, Any]) -> Any:
    if not each["path"]:
        return clone(each["value"])
    return _add(_remove(whole, each["path"]), each["path"], each["value"])


def _move(whole: Any, each: dict[str, Any]) -> Any:
    value = _find(whole, _steps(each["from"]))
    return _add(_remove(whole, each["from"]), each["path"], value)


def _test(whole: Any, each: dict[str, Any]) -> Any:
    if _find(whole, _steps(each["path"])) != each["value"]:
        raise ValueError("testing value failed")
    return whole


OPERATIONS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "add": lambda whole, each: _add(whole, each["path"], each["value"]),
    "remove": lambda whole, each: _remove(whole, each["path"]),
    "replace": _replace,
    "move": _move,
    "copy": lambda whole, each: _add(whole, each["path"], _find(whole, _steps(each["from"]))),
    "test": _test,
}


def apply(kind: str, target: Any, patch: Any) -> Any:
    """Applies a patch of a media type that is one of `KINDS`."""
    if kind == JSON_PATCH:
        return json_patch(target, patch)
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a merge patch is an object")
    return strategic(target, patch) if kind == STRATEGIC_PATCH else merge(target, patch)
