"""Compares stated values with recomputed ones, and finds the first difference."""

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, BinaryIO

from orchestrator.bundles import encoding
from orchestrator.domain.ids import canonical_json
from orchestrator.domain.text import printable
from orchestrator.errors import NotGenuine

TOLERANCE = 2e-6
"""The largest relative difference of a stated float and a recomputed one: another processor may add in another order,
and rounding to six decimals may go either way. Counts have to be equal, and so have scores, which are also stated as
exact fractions."""
_ABSENT = object()


def check_equal(name: str, stated: Any, found: Any) -> None:
    """Raises NotGenuine, naming the place, if a stated value differs from the one that was found."""
    difference = _difference(stated, found)
    if difference is not None:
        path, one, other = difference
        raise NotGenuine(name + path, f"is {_display(one)}, and {_display(other)} follows from the record")


def check_lines(file: BinaryIO, name: str, found: Iterable[Any]) -> None:
    """Raises NotGenuine, naming the line, if a file's values differ from those that were found."""
    lines = encoding.decode_lines(file, name)
    number = 0
    for number, value in enumerate(found, start=1):
        place, stated = next(lines, (f"{name} line {number}", _ABSENT))
        if stated is _ABSENT:
            raise NotGenuine(place, "is missing")
        check_equal(place, stated, value)
    for place, _ in lines:
        raise NotGenuine(place, f"is one too many; {number} follow from the record")


def count_numbers(value: Any) -> int:
    """Returns how many numbers a JSON value contains."""
    if isinstance(value, dict):
        return sum(map(count_numbers, value.values()))
    if isinstance(value, list):
        return sum(map(count_numbers, value))
    return int(_is_number(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _difference(stated: Any, found: Any) -> tuple[str, Any, Any] | None:
    """Returns the path of the first difference and the two values there, None for no difference."""
    members: Iterable[tuple[Any, Any, Any]]
    if isinstance(stated, dict) and isinstance(found, dict):
        keys = sorted(stated.keys() | found.keys())
        members = ((key, stated.get(key, _ABSENT), found.get(key, _ABSENT)) for key in keys)
    elif isinstance(stated, list) and isinstance(found, list):
        members = ((at, *pair) for at, pair in enumerate(zip_longest(stated, found, fillvalue=_ABSENT)))
    else:
        return None if _are_equal(stated, found) else ("", stated, found)
    for name, one, other in members:
        inside = _difference(one, other)
        if inside is not None:
            step = f" [{name}]" if isinstance(name, int) else f" {printable(name, 80)}"
            return step + inside[0], inside[1], inside[2]
    return None


def _are_equal(stated: Any, found: Any) -> bool:
    if isinstance(found, float) and _is_number(stated):  # canonical JSON writes 1.0 as 1
        return bool(abs(stated - found) <= TOLERANCE * max(1.0, abs(found)))
    return type(stated) is type(found) and bool(stated == found)


def _display(value: Any) -> str:
    return "nothing" if value is _ABSENT else printable(canonical_json(value), 120)
