"""Names that are computed from what they name: digests, job ids and seeds."""

import hashlib
import hmac
import json
from typing import Any, NewType

JobId = NewType("JobId", str)
"""Sixteen hex digits, a digest of everything that goes into the job. The same work has the same id everywhere."""

SEED_BITS = 53
"""Seeds travel as JSON integers, which are exact up to 2^53."""


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical_json(value: Any) -> str:
    """Returns the one JSON text of a value: sorted keys, no spaces, no NaN."""
    return _encode(value)


def digest(data: bytes | str) -> str:
    """Returns `sha256:` and 64 hex digits."""
    raw = data.encode() if isinstance(data, str) else data
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def job_id(**goes_in: Any) -> JobId:
    """Returns the id of the work that these values describe."""
    return JobId(hashlib.sha256(canonical_json(goes_in).encode()).hexdigest()[:16])


def derive_seed(key: bytes, *parts: str) -> int:
    """Returns a seed in 0..2^53-1 that only the holder of `key` can foresee (HMAC-SHA256)."""
    mac = hmac.new(key, canonical_json(parts).encode(), hashlib.sha256).digest()
    return int.from_bytes(mac[:8], "big") >> (64 - SEED_BITS)
