"""Describes pydantic's validation errors in plain words: what is wrong, and what to write instead.

Every message about a field that people read is made here: for contest files, manifests, packages, tables, requests and
messages of players. The words are the same for every model, and none of them is Python's or pydantic's.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

from pydantic import BaseModel, ValidationError

from orchestrator.domain.text import printable
from orchestrator.errors import Problem

KeyPath = tuple[str | int, ...]
"""Keys and list positions, from the top of a document down."""

_MAX_NUMBER_BITS = 64
_SHOWN = 60
"""How many characters of a value are shown."""
_MAX_DEPTH = 8
"""The largest depth of nested models."""
_NUMBER = ("{given} is not a number", "write a number")
_WHOLE = ("{given} is not a whole number", "write a whole number")
_BOOLEAN = ("{given} is neither true nor false", "write true or false")
_CHOICE = ("{given} is not allowed here", "write {expected}")
_LIST = ("{given} is not a list", "write a list, such as [first, second]")
_MAPPING = ("{given} is not a mapping", "write keys with their values")
_DIGITS = ("{given} has too many digits", "write fewer digits")
_TIME = ("{given} is not a time", "write it like 2026-11-23T18:00:00Z")
_SIZE = (
    "{given} is not a size",
    "write bytes, or a number with a unit: 512MiB and 2GiB are powers of 1024, 500MB and 2GB of 1000",
)
_WORDS: Mapping[str, tuple[str, str]] = {
    "missing": ("missing", "add it"),
    "string_type": ("{given} is not text", "write text, in quotation marks where it looks like something else"),
    "string_too_short": ("{given} is too short", "write at least {min_length} characters"),
    "string_too_long": ("{length} characters are too many", "write at most {max_length} characters"),
    "string_unicode": ("not UTF-8", "write it in UTF-8"),
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _DIGITS,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "decimal_type": _NUMBER,
    "decimal_parsing": _NUMBER,
    "finite_number": ("{given} is not finite", "write a number"),
    "decimal_max_places": ("{given} has too many decimals", "write at most {decimal_places} decimals"),
    "decimal_max_digits": _DIGITS,
    "decimal_whole_digits": _DIGITS,
    "bool_type": _BOOLEAN,
    "bool_parsing": _BOOLEAN,
    "greater_than": ("{given} is too small", "write more than {gt}"),
    "greater_than_equal": ("{given} is too small", "write at least {ge}"),
    "less_than": ("{given} is too large", "write less than {lt}"),
    "less_than_equal": ("{given} is too large", "write at most {le}"),
    "multiple_of": ("{given} is not a multiple of {multiple_of}", "write one"),
    "literal_error": _CHOICE,
    "enum": _CHOICE,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "dict_type": _MAPPING,
    "mapping_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "too_short": ("{given} is too short", "write at least {min_length} of them"),
    "too_long": ("{given} is too long", "write at most {max_length} of them"),
    "timezone_aware": ("{given} has no time zone", "end it with Z, which is UTC, or with an offset such as +01:00"),
    "byte_size": _SIZE,
    "byte_size_unit": _SIZE,
    "union_tag_not_found": ("{discriminator} is missing", "add it"),
    "union_tag_invalid": ("{discriminator} is '{tag}'", "write {expected_tags}"),
    "json_invalid": ("not JSON: {error}", "write one JSON document"),
}
"""For each of pydantic's error types, what is wrong and the remedy."""
_UNION_MEMBER = re.compile(r"literal\[.*\]|constrained-\w+|int|str|float|bool", re.DOTALL)
"""What pydantic appends to the path of a value that may be of several types: it is not a key."""
_OF_A_KEY = "[key]"
"""What pydantic appends to the path of a key that is itself wrong."""
_QUOTED_WORD = re.compile(r"'([\w.-]+)'")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field: its path from the top of the validated document, what is wrong, and how to correct it."""

    path: KeyPath
    what: str
    remedy: str

    def __str__(self) -> str:
        return str(self.problem())

    def problem(self, top: str = "top level", remedy: str = "") -> Problem:
        """Returns the problem at the dotted path, or at `top` if the path is empty; `remedy` replaces the error's."""
        return Problem(dotted_path(self.path) or top, self.what, remedy or self.remedy)


def field_errors(error: ValidationError, kind: type[BaseModel] | None = None) -> list[FieldError]:
    """Returns everything that pydantic found wrong, in pydantic's order; at least one error.

    Args:
        error: the error that validation raised.
        kind: the model that was validated. If it is given, messages about unknown keys name the known keys, and
            messages about patterns have their descriptions.
    """
    return describe_errors(error.errors(include_url=False), kind)


def describe_errors(found: Iterable[Mapping[str, Any]], kind: type[BaseModel] | None = None) -> list[FieldError]:
    """Returns the descriptions of pydantic's errors as another library passes them; see `field_errors`."""
    return [_field_error(path, list(errors), kind) for (path, _), errors in groupby(found, key=_identity)]


def first_field_error(error: ValidationError, kind: type[BaseModel] | None = None) -> str:
    """Returns the first error, as `place: what; remedy`."""
    return str(field_errors(error, kind)[0])


def dotted_path(path: KeyPath) -> str:
    """Returns a path as text, such as `tasks[0].budget.epsilon`; "" for an empty path."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return printable(text.lstrip("."))


def show_value(value: Any) -> str:
    """Returns a value of a document in a few words, however large: aliases can make a short file mean a huge value."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return f"a mapping of {_counted(value, 'key')}"
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        return f"a list of {_counted(value, 'item')}"
    if isinstance(value, int) and value.bit_length() > _MAX_NUMBER_BITS:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, str):
        shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
        return printable(repr(str(shown))) if value else "an empty text"
    return printable(str(value), _SHOWN)


def _counted(value: Collection[Any], noun: str) -> str:
    return f"{len(value)} {noun}{'' if len(value) == 1 else 's'}"


def _identity(error: Mapping[str, Any]) -> tuple[KeyPath, int]:
    """Returns the path of an error and a number: 0 for errors of a union, which belong together, else a unique one."""
    place = error["loc"]
    if len(place) > 1 and isinstance(place[-1], str) and _UNION_MEMBER.fullmatch(place[-1]):
        return place[:-1], 0
    return place, id(error)


def _field_error(path: KeyPath, errors: list[Mapping[str, Any]], kind: type[BaseModel] | None) -> FieldError:
    """Returns the errors of one path as one. If several types are allowed there, pydantic reports an error for each."""
    path = path[:-1] if path[-1:] == (_OF_A_KEY,) else path
    said = [_what_and_remedy(each, kind) for each in errors]
    if len(said) == 1:
        return FieldError(path, *said[0])
    allowed = " or ".join(dict.fromkeys(remedy.removeprefix("write ") for _, remedy in said))
    return FieldError(path, "none of the values that are allowed here", f"write {allowed}")


def _what_and_remedy(error: Mapping[str, Any], kind: type[BaseModel] | None) -> tuple[str, str]:
    context = error.get("ctx", {})
    given = show_value(error["input"]) if "input" in error else "what was sent"
    match error["type"]:
        case "value_error":  # raised by our own validators: what is wrong, a semicolon, the remedy
            what, _, remedy = printable(str(context["error"])).partition("; ")
            return what, remedy
        case "extra_forbidden":
            return "unknown key", _key_remedy(error["loc"], kind)
        case "string_pattern_mismatch":
            pattern = context["pattern"]
            allowed = (_pattern_texts(kind).get(pattern) if kind else None) or _hexadecimal(pattern)
            return f"{given} is not allowed here", f"write {allowed or f'what matches {pattern}'}"
        case known if known in _WORDS:
            words = {name: _unquoted(value) for name, value in context.items()}
            words["length"] = str(len(error["input"])) if isinstance(error.get("input"), str) else "these"
            what, remedy = (part.format(given=given, **words) for part in _WORDS[known])
            return what, remedy.replace("at least 1 characters", "at least 1 character")
        case time if time.startswith(("datetime_", "date_", "time_")):
            return _TIME[0].format(given=given), _TIME[1]
        case _:
            return f"{given} is not allowed here", printable(error["msg"])


def _hexadecimal(pattern: str) -> str:
    """Returns what a pattern for a digest or an id requires, in words; "" for any other pattern."""
    found = re.fullmatch(r"\^(sha256:)?\[0-9a-f\]\{(\d+)\}\$", pattern)
    return f"{found[1] or ''}{' and ' if found[1] else ''}{found[2]} of the digits 0-9 and a-f" if found else ""


def _unquoted(value: object) -> str:
    """Returns a value from an error as text: choices without Python's quotation marks, `True` as `true`."""
    text = f"{value:.12g}" if isinstance(value, float) else _QUOTED_WORD.sub(r"\1", str(value))
    return printable(re.sub(r"\b(True|False)\b", lambda found: found[0].lower(), text))


def _key_remedy(path: KeyPath, kind: type[BaseModel] | None) -> str:
    """Returns what to do about an unknown key: it names the nearest known key, the key's place, or all known keys."""
    if kind is None:
        return "remove it"
    keys = _known_keys(kind)
    name = str(path[-1])
    above = tuple(part for part in path[:-1] if isinstance(part, str))
    here = keys.get(above, ())
    if close := difflib.get_close_matches(name, here, n=1):
        return f"did you mean {close[0]!r}?"
    if elsewhere := [dotted_path(place) for place, known in keys.items() if name in known]:
        return f"it belongs {f'below {elsewhere[0]!r}' if elsewhere[0] else 'to the top level'}"
    return f"remove it; the keys here are {', '.join(here)}" if here else "remove it"


@lru_cache
def _known_keys(kind: type[BaseModel]) -> Mapping[KeyPath, tuple[str, ...]]:
    """Returns the keys of a model and of each nested model, by the path to it; paths have no list positions."""
    schema = kind.model_json_schema()
    keys: dict[KeyPath, tuple[str, ...]] = {}

    def walk(node: Mapping[str, Any], path: KeyPath) -> None:
        if len(path) > _MAX_DEPTH:
            return
        if "$ref" in node:
            walk(schema["$defs"][node["$ref"].rpartition("/")[2]], path)
        for part in [*node.get("anyOf", ()), *node.get("allOf", ())]:
            walk(part, path)
        if isinstance(node.get("items"), Mapping):
            walk(node["items"], path)
        properties = node.get("properties", {})
        if properties:
            keys.setdefault(path, tuple(properties))
        for name, below in properties.items():
            walk(below, (*path, name))

    walk(schema, ())
    return keys


@lru_cache
def _pattern_texts(kind: type[BaseModel]) -> dict[str, str]:
    """Returns the patterns in a model and its nested models, each with its description."""
    return {
        node["pattern"]: node["description"]
        for node in _nodes(kind.model_json_schema())
        if isinstance(node.get("pattern"), str) and "description" in node
    }


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yields every mapping in a schema."""
    if isinstance(schema, Mapping):
        yield schema
    for below in schema.values() if isinstance(schema, Mapping) else schema if isinstance(schema, list) else ():
        yield from _nodes(below)
