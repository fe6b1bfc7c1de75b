"""Label and field selectors, as lists and watches take them.

Labels and selectors, "API: label selectors" (equality-based and set-based requirements, joined by commas); field
selectors, "Supported fields": an unknown field is refused with 400.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .resources import Resource
from .status import bad_request

Test = Callable[[Mapping[str, Any]], bool]

_SET = re.compile(r"^(?P<key>[^\s,()!=]+)\s+(?P<how>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s,()!=]+)\s*(?P<how>==|=|!=)\s*(?P<value>[^\s,()!=]*)$")
_BARE = re.compile(r"^(?P<no>!?)\s*(?P<key>[^\s,()!=]+)$")
_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")


@dataclass(frozen=True)
class Selector:
    """A selection of objects. `pairs` are labels that every one of them has, for the store's index."""

    tests: tuple[Test, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tests)

    def matches(self, data: Mapping[str, Any]) -> bool:
        """Whether an object is selected."""
        return all(test(data) for test in self.tests)

    def __and__(self, other: "Selector") -> "Selector":
        return Selector(self.tests + other.tests, self.pairs + other.pairs)


def _label(key: str, wanted: Iterable[str] | None, *, negated: bool) -> Test:
    """A requirement; `wanted` None asks only whether the label is there."""
    values = None if wanted is None else frozenset(wanted)

    def test(data: Mapping[str, Any]) -> bool:
        found = (data["metadata"].get("labels") or {}).get(key)
        met = found is not None and (values is None or found in values)
        return met != negated

    return test


def _parts(text: str) -> list[str]:
    """Splits at commas that are not inside parentheses."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", text)]


def labels(text: str) -> Selector:
    """Returns the selector of a `labelSelector` parameter.

    Raises:
        ApiError: 400, the text is no selector.
    """
    found = Selector()
    for part in _parts(text) if text.strip() else []:
        if each := _SET.match(part):
            wanted = [value.strip() for value in each["values"].split(",")]
            made = Selector((_label(each["key"], wanted, negated=each["how"] == "notin"),))
        elif each := _EQUAL.match(part):
            wanted, negated = [each["value"]], each["how"] == "!="
            pairs = () if negated else ((each["key"], each["value"]),)
            made = Selector((_label(each["key"], wanted, negated=negated),), pairs)
        elif each := _BARE.match(part):
            wanted, made = [], Selector((_label(each["key"], None, negated=bool(each["no"])),))
        else:
            raise bad_request(f"unable to parse requirement: found {part!r}, expected: a label selector")
        if bad := [value for value in wanted if not _VALUE.match(value)]:
            raise bad_request(f"unable to parse requirement: values: Invalid value: {bad[0]!r}: not a label value")
        found &= made
    return found


def from_object(selector: Mapping[str, Any] | None) -> Selector:
    """Returns the selector of a `metav1.LabelSelector`; none selects nothing, an empty one everything."""
    if selector is None:
        return Selector((lambda _: False,))
    pairs = tuple((selector.get("matchLabels") or {}).items())
    tests = [_label(key, [value], negated=False) for key, value in pairs]
    for each in selector.get("matchExpressions") or ():
        values = each.get("values") if each["operator"] in {"In", "NotIn"} else None
        tests.append(_label(each["key"], values, negated=each["operator"] in {"NotIn", "DoesNotExist"}))
    return Selector(tuple(tests), pairs)


_EVERYWHERE = ("metadata.name", "metadata.namespace")
FIELDS: dict[str, tuple[str, ...]] = {
    "pods": ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase"),
    "events": (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "reason",
        "reportingComponent", "source", "type",
    ),
    "jobs": ("status.successful",),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "secrets": ("type",),
}  # fmt: skip
"""Field selectors by resource, from the reference page "Field Selectors", list of supported fields."""


def value_at(data: Mapping[str, Any], path: str) -> str:
    """Returns the text of a selectable field; empty where it is absent."""
    if path == "status.successful":
        return str(data.get("status", {}).get("succeeded", 0))
    if path == "source":
        return str((data.get("source") or {}).get("component", ""))
    found: Any = data
    for step in path.split("."):
        found = (found or {}).get(step)
    if isinstance(found, bool):
        return str(found).lower()
    return "" if found is None else str(found)


def fields(text: str, resource: Resource) -> Selector:
    """Returns the selector of a `fieldSelector` parameter.

    Raises:
        ApiError: 400, the text is no selector, or the resource cannot be selected by that field.
    """
    found = Selector()
    for part in _parts(text) if text.strip() else []:
        each = re.match(r"^(?P<path>[^=!]+?)(?P<how>==|=|!=)(?P<value>.*)$", part)
        if each is None:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        path = each["path"]
        if path not in (*_EVERYWHERE, *FIELDS.get(resource.plural, ())):
            raise bad_request(f"field label not supported: {path}")
        found &= Selector((_field(path, each["value"], negated=each["how"] == "!="),))
    return found


def _field(path: str, wanted: str, *, negated: bool) -> Test:
    return lambda data: (value_at(data, path) == wanted) != negated
