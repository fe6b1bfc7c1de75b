"""Digests, job ids and seeds, and the canonical JSON from which they are computed.

Everything that is hashed or signed as JSON has the form of RFC 8785 (JSON Canonicalization Scheme), so that programs in
other languages can verify it with a library: https://www.rfc-editor.org/rfc/rfc8785
"""

import functools
import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, NewType

import rfc8785
from pydantic import Field

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
"""A SHA-256 digest, as `digest` returns it."""
JobId = NewType("JobId", str)
"""Sixteen hex digits: a digest of everything that the job depends on. The same work has the same id everywhere."""

SEED_BITS = 53
"""Seeds travel as JSON integers, which are exact up to 2^53."""


LARGEST_EXACT = 2**53 - 1
"""The largest integer that RFC 8785 writes. Its numbers are doubles, in which 2^53 + 1 is not exact."""
_LITERALS = {None: "null", True: "true", False: "false"}
_MEMBERS_OF_EVENTS = 32
"""Few objects in events have more members. Up to this number, the order of the members is cached."""
_quote = json.encoder.encode_basestring
"""Writes a text as a JSON string, with the same escapes as RFC 8785."""


def canonical_json(value: Any) -> str:
    """Returns the canonical JSON text of a value, by RFC 8785.

    Raises:
        ValueError: the value cannot be written and read back unchanged: NaN, an infinity, an integer beyond 2^53 - 1,
            half a surrogate pair, a key that is not text, or a type that JSON does not have.
    """
    try:
        text = _write(value)
    except TypeError as error:
        raise ValueError(f"an object has a key that is not a text: {error}") from error
    if not text.isascii():
        text.encode()  # raises UnicodeEncodeError, a ValueError, for half a surrogate pair
    return text


def _write(value: Any) -> str:
    """Returns the canonical text of a value. Raises TypeError for a key that is not text, else ValueError.

    It writes the same text as the package `rfc8785`, which takes several times as long because it passes each piece
    through a regular expression and a stream. That package still writes fractions with an exponent, and refuses other
    values.
    """
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, dict):
        members = _members(tuple(value)) if len(value) <= _MEMBERS_OF_EVENTS else _sorted_members(tuple(value))
        return "{" + ",".join([start + _write(value[name]) for name, start in members]) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([_write(item) for item in value]) + "]"
    if value is None or isinstance(value, bool):
        return _LITERALS[value]
    return _write_number(value)


def _write_number(value: Any) -> str:
    """Returns the canonical text of a number. Raises ValueError if it has none, or if the value is not a number.

    If Python writes a fraction without an exponent, ECMAScript writes the same digits.
    """
    if isinstance(value, (int, float)) and -LARGEST_EXACT <= value <= LARGEST_EXACT:
        if isinstance(value, int) or value.is_integer():
            return int.__repr__(int(value))
        text = float.__repr__(value)
        if "e" not in text:
            return text
    return rfc8785.dumps(value).decode()


def _sorted_members(names: tuple[Any, ...]) -> list[tuple[str, str]]:
    """Returns the names of an object's members in canonical order, each with the text in front of its value."""
    order = sorted(names)
    if not "".join(order).isascii():  # the join raises TypeError for a name that is not text
        order.sort(key=lambda name: name.encode("utf-16be"))
    return [(name, f"{_quote(name)}:") for name in order]


_members = functools.lru_cache(512)(_sorted_members)


def parse_json(text: str | bytes) -> Any:
    """Returns the value of a JSON text, its numbers read as RFC 8785 means them. Raises ValueError if it is not JSON.

    An integer beyond the exact ones was written as a double. It is read as a double, so that its canonical text stays
    the same.
    """
    return json.loads(text, parse_int=_parse_integer)


def _parse_integer(digits: str) -> int | float:
    """Returns the integer if it is exact, else the nearest double."""
    if len(digits) < len(str(LARGEST_EXACT)):
        return int(digits)
    number = float(digits)
    return number if abs(number) > LARGEST_EXACT else int(digits)


def digest(data: bytes | str) -> str:
    """Returns `sha256:` and 64 hex digits."""
    raw = data.encode() if isinstance(data, str) else data
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def job_id(**inputs: Any) -> JobId:
    """Returns the id of the job that depends on these values."""
    return JobId(hashlib.sha256(canonical_json(inputs).encode()).hexdigest()[:16])


def derive_seed(key: bytes, *parts: str) -> int:
    """Returns a seed in 0..2^53-1 that only the holder of `key` can predict (HMAC-SHA256)."""
    mac = hmac.digest(key, canonical_json(parts).encode(), "sha256")
    return int.from_bytes(mac[:8], "big") >> (64 - SEED_BITS)


def picture_seeds(secret: bytes, defence: str, pictures: Iterable[str]) -> list[int]:
    """Returns the seed with which a defence that may use chance classifies each picture (U13).

    A seed depends on the round's secret, the defence, the picture's digest, and how often the picture came before.
    """
    before: Counter[str] = Counter()
    found = []
    for picture in pictures:
        found.append(derive_seed(secret, "picture", defence, picture, str(before[picture])))
        before[picture] += 1
    return found
