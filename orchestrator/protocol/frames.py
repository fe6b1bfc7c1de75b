"""Encodes and decodes frames.

A frame is 4 bytes magic, two little-endian u32 lengths, a JSON header and a raw payload (schemas/protocol.md,
"Frames"). The decoder gets hostile bytes: it checks lengths before it uses memory, never copies a payload twice, and
ends every malformed stream in exactly one `ProtocolFault` whose `reason` says which rule was broken.
"""

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import isinf
from typing import Any, NoReturn

from orchestrator.domain.text import printable
from orchestrator.errors import ProtocolFault

MAGIC = b"SPI1"
HEADER_LIMIT = 65_536
PAYLOAD_LIMIT = 2**32 - 1
"""The longest payload that a frame can announce, in bytes."""
NESTING_LIMIT = 64
"""How deep arrays and objects of one header may be nested; real messages need three levels."""
SAFE_INTEGER = 2**53

_PREFIX = struct.Struct("<4sII")
_LONG_NUMBER = re.compile("[0-9]{16}")
"""Matches every integer beyond `SAFE_INTEGER`, which has 16 digits, and some others."""
_NESTING = re.compile(r'"(?:[^"\\]|\\.)*+["\\]?|[][{}]', re.DOTALL)
"""Strings and brackets. A string without an end matches too: looking for its end again from each quote in it would take
quadratic time."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message as it travels: a JSON object and raw array bytes."""

    header: Mapping[str, Any]
    payload: bytes | memoryview = b""


def encode_frame(header: Mapping[str, Any], payload: bytes | memoryview = b"") -> bytes:
    """Returns the bytes of one frame.

    Raises:
        ValueError: the header is longer than `HEADER_LIMIT` or contains NaN, Infinity or half a surrogate pair; the
            payload is longer than `PAYLOAD_LIMIT`, or is a view of other elements than bytes.
    """
    return encode_text_frame(_encoder.encode(header).encode(), payload)


def encode_text_frame(text: bytes, payload: bytes | memoryview = b"") -> bytes:
    """Returns the bytes of one frame with this JSON text as its header. Raises ValueError like `encode_frame`."""
    if len(text) > HEADER_LIMIT:
        raise ValueError(f"header of {len(text)} bytes, limit is {HEADER_LIMIT}")
    if isinstance(payload, memoryview) and (payload.itemsize != 1 or payload.ndim != 1):
        raise ValueError("the payload must be a flat view of bytes")
    if len(payload) > PAYLOAD_LIMIT:
        raise ValueError(f"payload of {len(payload)} bytes, limit is {PAYLOAD_LIMIT}")
    return b"".join((_PREFIX.pack(MAGIC, len(text), len(payload)), text, payload))


def strict_json(text: str) -> Any:
    """Returns the value of a JSON text.

    Raises:
        ValueError: the text is not JSON, or has a key twice, NaN or Infinity, an integer beyond 2^53, a number beyond a
            double, half a surrogate pair, or more than `NESTING_LIMIT` levels.
    """
    if text.count("{") + text.count("[") > NESTING_LIMIT:
        _check_depth(text)
    value = (_decoder if _LONG_NUMBER.search(text) is None else _exact_decoder).decode(text)
    if "\\u" in text:
        _encoder.encode(value).encode()  # UnicodeEncodeError for half a surrogate pair
    return value


class FrameDecoder:
    """Decodes a stream of bytes, in pieces of any size, to frames."""

    def __init__(self, payload_limit: int) -> None:
        self._payload_limit = payload_limit
        self._buffer = bytearray()
        self._failed = False

    def feed(self, data: bytes) -> None:
        """Adds bytes of the stream. The decoder buffers no more than these; the caller limits what it reads."""
        if not self._failed:
            self._buffer += data

    def next_frame(self) -> Frame | None:
        """Returns the next whole frame, or None if more bytes are needed.

        Raises:
            ProtocolFault: the stream is malformed. Every later call raises too: the decoder does not resynchronise.
        """
        if self._failed:
            raise ProtocolFault("after-fault", "the stream was malformed before; nothing after it is read")
        available = len(self._buffer)
        if self._buffer[:4] != MAGIC[:available]:
            seen = printable(bytes(self._buffer[:48]))
            self._fault("magic", f"expected a frame, got '{seen}'; did the player print to stdout?")
        if available < _PREFIX.size:
            return None
        _, header_length, payload_length = _PREFIX.unpack_from(self._buffer)
        if header_length > HEADER_LIMIT:
            self._fault("header-length", f"header of {header_length} bytes, limit is {HEADER_LIMIT}")
        if payload_length > self._payload_limit:
            self._fault("payload-length", f"payload of {payload_length} bytes, limit is {self._payload_limit}")
        start = _PREFIX.size + header_length
        end = start + payload_length
        if available < end:
            return None
        header = self._parse_header(bytes(self._buffer[_PREFIX.size : start]))
        return Frame(header, self._take_payload(start, end))

    @property
    def pending_bytes(self) -> int:
        """The number of bytes that are not returned yet as part of a frame."""
        return len(self._buffer)

    def _take_payload(self, start: int, end: int) -> bytes | memoryview:
        """Removes the first frame from the buffer; returns its payload.

        A frame usually fills the buffer, because a player waits for the next question. Then the payload is a view of
        the buffer, and nothing is copied.
        """
        buffer = self._buffer
        if end == len(buffer) and start < end:
            self._buffer = bytearray()
            return memoryview(buffer)[start:end].toreadonly()
        payload = bytes(memoryview(buffer)[start:end])
        del buffer[:end]
        return payload

    def _parse_header(self, text: bytes) -> dict[str, Any]:
        try:
            value = strict_json(text.decode("utf-8", "strict"))
        except ValueError as error:
            self._fault("json", f"header is not strict JSON: {printable(str(error))}")
        if not isinstance(value, dict):
            self._fault("json", "header is not a JSON object")
        return value

    def _fault(self, reason: str, message: str) -> NoReturn:
        self._failed = True
        self._buffer = bytearray()
        raise ProtocolFault(reason, message) from None


def _check_depth(text: str) -> None:
    depth = 0
    for part in _NESTING.findall(text):
        if part in "[{":
            depth += 1
        elif part in "]}":
            depth -= 1
        if depth > NESTING_LIMIT:
            raise ValueError(f"more than {NESTING_LIMIT} arrays and objects in each other")


def _require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _safe_integer(digits: str) -> int:
    if len(digits) > 17 or abs(value := int(digits)) > SAFE_INTEGER:  # noqa: PLR2004  2^53 has 16 digits, and a sign
        raise ValueError("an integer beyond 2^53")
    return value


def _finite_number(digits: str) -> float:
    value = float(digits)
    if isinf(value):
        raise ValueError("a number beyond the range of a double")
    return value


_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_strictness: dict[str, Any] = {
    "object_pairs_hook": _require_unique_keys,
    "parse_constant": _refuse_constant,
    "parse_float": _finite_number,
}
_decoder = json.JSONDecoder(**_strictness)
_exact_decoder = json.JSONDecoder(**_strictness, parse_int=_safe_integer)
"""Also checks every integer, which takes as long as all other parsing together."""
