"""The form of all JSON in a bundle: canonical JSON (RFC 8785) in UTF-8, each value followed by a line feed.

There is only one way to write a value, so a reader that writes it again has to get the same bytes: no spaces, no other
order, no duplicate keys, no other form of a number.
"""

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from orchestrator.domain.ids import canonical_json, parse_json
from orchestrator.domain.text import printable
from orchestrator.errors import NotGenuine

MAX_LINE_BYTES = 64 * 1024**2
"""The longest line, in bytes: no bundle of a reasonable size has a longer one."""


def encode(value: Any) -> bytes:
    """Returns a value in the form of bundles."""
    return (canonical_json(value) + "\n").encode()


def encode_lines(values: Iterable[Any]) -> bytes:
    """Returns the values, one on each line."""
    return b"".join(map(encode, values))


def decode(data: bytes, place: str) -> Any:
    """Returns the value of these bytes. Raises NotGenuine, naming `place`, if they are not its canonical form."""
    try:
        value = parse_json(data)
        same = encode(value) == data
    except (ValueError, RecursionError) as error:
        raise NotGenuine(place, f"is no canonical JSON: {printable(str(error), 120)}") from None
    if not same:
        raise NotGenuine(place, "is no canonical JSON: it can be written in another way")
    return value


def decode_lines(file: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    """Yields each line's place and value. Raises NotGenuine at the first that is not canonical, or too long."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        place = f"{name} line {number}"
        if len(line) > MAX_LINE_BYTES:
            raise NotGenuine(place, f"is longer than {MAX_LINE_BYTES} bytes")
        yield place, decode(line, place)
