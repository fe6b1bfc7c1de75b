"""Names that are computed from what they name: digests, job ids and seeds; and the canonical JSON that they are of.

Everything that is hashed or signed as JSON is in the form of RFC 8785 (JSON Canonicalization Scheme), so that other
languages verify it with a library: https://www.rfc-editor.org/rfc/rfc8785
"""

import functools
import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, NewType

import rfc8785

JobId = NewType("JobId", str)
"""Sixteen hex digits, a digest of everything that goes into the job. The same work has the same id everywhere."""

SEED_BITS = 53
"""Seeds travel as JSON integers, which are exact up to 2^53."""


LARGEST_EXACT = 2**53 - 1
"""The largest integer that RFC 8785 writes: numbers are doubles there, and the next but one is not exact."""
_LITERALS = {None: "null", True: "true", False: "false"}
_MEMBERS_OF_EVENTS = 32
"""So many members an object of an event has at most, as a rule: of these the order is kept for the next one."""
_quote = json.encoder.encode_basestring
"""Writes a text as a JSON string. RFC 8785 escapes what this escapes, in the same way."""


def canonical_json(value: Any) -> str:
    """Returns the one JSON text of a value by RFC 8785.

    Raises:
        ValueError: what it cannot write and read back unchanged: NaN, an infinity, an integer beyond 2^53 - 1, half a
            surrogate pair, a key that is no text, or a value that JSON does not have.
    """
    try:
        text = _write(value)
    except TypeError as error:
        raise ValueError(f"an object has a key that is not a text: {error}") from error
    if not text.isascii():
        text.encode()  # raises UnicodeEncodeError, a ValueError, for half a surrogate pair
    return text


def _write(value: Any) -> str:
    """Returns the canonical text of a value. Raises TypeError for a key that is no text, else ValueError.

    It writes what `rfc8785` writes. That package sends each piece through a regular expression and into a stream, which
    takes several times as long; it still writes fractions with an exponent, and refuses what cannot be written.
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
    """Returns the canonical text of a number, and refuses what is none.

    Where Python writes a fraction without an exponent, ECMAScript writes the same digits.
    """
    if isinstance(value, (int, float)) and -LARGEST_EXACT <= value <= LARGEST_EXACT:
        if isinstance(value, int) or value.is_integer():
            return int.__repr__(int(value))
        text = float.__repr__(value)
        if "e" not in text:
            return text
    return rfc8785.dumps(value).decode()


def _sorted_members(names: tuple[Any, ...]) -> list[tuple[str, str]]:
    """Returns the names of an object's members in their canonical order, each with its text up to the value."""
    order = sorted(names)
    if not "".join(order).isascii():  # which raises TypeError for what is no text
        order.sort(key=lambda name: name.encode("utf-16be"))
    return [(name, f"{_quote(name)}:") for name in order]


_members = functools.lru_cache(512)(_sorted_members)


def parse_json(text: str | bytes) -> Any:
    """Returns the value of a JSON text, its numbers as RFC 8785 means them. Raises ValueError for what is no JSON.

    A number without a fraction is a double too: what is larger than an exact integer was written as a double and is
    read as one, so that it has the same canonical text again.
    """
    return json.loads(text, parse_int=_parse_integer)


def _parse_integer(digits: str) -> int | float:
    """Returns an exact integer, or the double that more digits stand for."""
    if len(digits) < len(str(LARGEST_EXACT)):
        return int(digits)
    number = float(digits)
    return number if abs(number) > LARGEST_EXACT else int(digits)


def digest(data: bytes | str) -> str:
    """Returns `sha256:` and 64 hex digits."""
    raw = data.encode() if isinstance(data, str) else data
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def job_id(**inputs: Any) -> JobId:
    """Returns the id of the work that these values describe."""
    return JobId(hashlib.sha256(canonical_json(inputs).encode()).hexdigest()[:16])


def derive_seed(key: bytes, *parts: str) -> int:
    """Returns a seed in 0..2^53-1 that only the holder of `key` can foresee (HMAC-SHA256)."""
    mac = hmac.new(key, canonical_json(parts).encode(), hashlib.sha256).digest()
    return int.from_bytes(mac[:8], "big") >> (64 - SEED_BITS)


def picture_seeds(secret: bytes, defence: str, pictures: Iterable[str]) -> list[int]:
    """Returns the seed with which a defence classifies each picture, where it may use chance (U13).

    It follows from the round's secret, the defence, the picture's digest, and how often the picture came before.
    """
    before: Counter[str] = Counter()
    found = []
    for picture in pictures:
        found.append(derive_seed(secret, "picture", defence, picture, str(before[picture])))
        before[picture] += 1
    return found
