"""The one form of every text in a bundle: canonical JSON (RFC 8785) in UTF-8, each value ended by a line feed.

There is one way to write a value, so a reader that writes it again must get the same bytes: no spaces, no other order,
no doubled keys, no other way to write a number.
"""

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from orchestrator.domain.ids import canonical_json, parse_json
from orchestrator.domain.text import printable
from orchestrator.errors import NotGenuine

MAX_LINE_BYTES = 64 * 1024**2
"""Bytes of one value: no line of a bundle of any sensible size is longer."""


def encode(value: Any) -> bytes:
    """Returns a value as a bundle holds it."""
    return (canonical_json(value) + "\n").encode()


def encode_lines(values: Iterable[Any]) -> bytes:
    """Returns values one after another, each on a line."""
    return b"".join(map(encode, values))


def decode(data: bytes, place: str) -> Any:
    """Returns the value that these bytes are the one form of. Raises NotGenuine, naming `place`."""
    try:
        value = parse_json(data)
        same = encode(value) == data
    except (ValueError, RecursionError) as error:
        raise NotGenuine(place, f"is no canonical JSON: {printable(str(error), 120)}") from None
    if not same:
        raise NotGenuine(place, "is no canonical JSON: it can be written in another way")
    return value


def decode_lines(file: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    """Yields each line's place and value. Raises NotGenuine at the first that has another form, or is too long."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        place = f"{name} line {number}"
        if len(line) > MAX_LINE_BYTES:
            raise NotGenuine(place, f"is longer than {MAX_LINE_BYTES} bytes")
        yield place, decode(line, place)
