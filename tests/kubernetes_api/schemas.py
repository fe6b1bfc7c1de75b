"""Bodies against the OpenAPI schemas of Kubernetes, as the package kubernetes-validate ships them, without a network.

What the API server does with a body that does not fit (API concepts, "Field validation" and the reference of `Status`):

- a value of the wrong type cannot be read: 400 BadRequest;
- a field that is missing, or a value that is not among those allowed: 422 Invalid, one cause per field;
- a field that is unknown: by `fieldValidation`, `Ignore` drops it, `Warn` drops it and says so in a `Warning` header,
  `Strict` refuses the body with 400.
"""

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from kubernetes_validate import utils
from referencing import Registry
from referencing import Resource as Document

from .resources import Resource
from .status import ApiError, Cause, bad_request, invalid

FORMATS = FormatChecker(formats=())
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
_MICRO = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$")
MICRO_TIMES = {"Lease": ("acquireTime", "renewTime"), "Event": ("eventTime",)}
"""Fields of the type MicroTime, which takes exactly six digits: k8s.io/apimachinery, `micro_time.go`."""


@FORMATS.checks("date-time")
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or bool(_TIME.match(value))


def versions(count: int = 3) -> list[str]:
    """Returns the last minor versions of Kubernetes whose schemas are there, the oldest first."""
    return list(dict.fromkeys(utils.all_versions()))[-count:]  # each is there strict and not


@cache
def _text(version: str, name: str) -> Any:
    folder = files("kubernetes_validate").joinpath("kubernetes-json-schema", f"v{version}-local-strict")
    return json.loads(folder.joinpath(name).read_text("utf-8"))


@cache
def _registry(version: str) -> Registry:
    return Document.from_contents(_text(version, "_definitions.json")) @ Registry()


@cache
def validator(version: str, api_version: str, kind: str) -> Draft202012Validator:
    """Returns the validator of a kind, in which unknown fields are errors."""
    group, _, rest = api_version.rpartition("/")
    name = f"{kind.lower()}-{group.split('.')[0]}-{rest}.json" if group else f"{kind.lower()}-{rest}.json"
    schema = _text(version, name)
    registry = Document.from_contents(schema) @ _registry(version)
    return Draft202012Validator(schema, registry=registry, format_checker=FORMATS)


def dotted(path: Any) -> str:
    """Returns a path as causes name it: `spec.template.spec.containers[0].image`."""
    found = ""
    for step in path:
        found += f"[{step}]" if isinstance(step, int) else f".{step}" if found else str(step)
    return found


def _cause(error: ValidationError) -> Cause:
    place = dotted(error.absolute_path)
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return Cause("FieldValueRequired", f"{place}.{missing[0]}" if place else missing[0], "Required value")
    if error.validator == "enum":
        allowed = ", ".join(json.dumps(each) for each in error.validator_value if each is not None)
        message = f"Unsupported value: {json.dumps(error.instance)}: supported values: {allowed}"
        return Cause("FieldValueNotSupported", place, message)
    return Cause("FieldValueInvalid", place, f"Invalid value: {json.dumps(error.instance)}: {error.message}")


def _unreadable(error: ValidationError) -> bool:
    return error.validator in {"type", "oneOf", "format"}


def _drop(body: dict[str, Any], error: ValidationError) -> list[str]:
    """Removes the fields that an error of the schema calls unknown, and returns their places."""
    owner: Any = body
    for step in error.absolute_path:
        owner = owner[step]
    unknown = [name for name in owner if name not in error.schema.get("properties", {})]
    for name in unknown:
        del owner[name]
    return [dotted([*error.absolute_path, name]) for name in unknown]


def check(version: str, resource: Resource, body: dict[str, Any], unknown: str) -> list[str]:
    """Checks a body that is about to be stored, drops its unknown fields where `unknown` says so, and returns warnings.

    Raises:
        ApiError: 400 or 422, as above.
    """
    if resource.foreign:
        return []
    name = body["metadata"].get("name", "")
    warnings: list[str] = []
    causes: list[Cause] = []
    for error in list(validator(version, resource.api_version, resource.kind).iter_errors(body)):
        if error.validator == "additionalProperties":
            warnings += [f'unknown field "{place}"' for place in _drop(body, error)]
        elif _unreadable(error):
            raise _cannot_read(resource, error)
        else:
            causes.append(_cause(error))
    _micro_times(resource, body)
    if warnings and unknown == "Strict":
        version_and_kind = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise bad_request(f"{version_and_kind}: strict decoding error: {', '.join(warnings)}")
    if causes:
        raise invalid(resource.group, resource.kind, name, sorted(causes, key=lambda each: each.field))
    return warnings if unknown == "Warn" else []


def _micro_times(resource: Resource, body: dict[str, Any]) -> None:
    held = body.get("spec") or {} if resource.kind == "Lease" else body
    for name in MICRO_TIMES.get(resource.kind, ()):
        if (value := held.get(name)) is not None and not _MICRO.match(value):
            why = f'parsing time "{value}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse'
            raise bad_request(f'{resource.kind} in version "v1" cannot be handled as a {resource.kind}: {why}')


def _cannot_read(resource: Resource, error: ValidationError) -> ApiError:
    place = dotted(error.absolute_path)
    found = type(error.instance).__name__
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
        f"json: cannot unmarshal {found} into Go struct field {resource.kind}.{place}: {error.message[:200]}"
    )
