"""What every hostile player shares: frames by hand. The runner makes it importable in the sandbox.

The pictures of these programs have the values 1 to 3, and their true label is the first of them. So `LIE` is never
right.
"""

import json
import os
import struct

LIE = 7
MIB = 1024 * 1024


def ask() -> tuple[dict, bytes]:
    """Returns the header and the payload of the next question."""
    _, header, payload = struct.unpack("<4sII", exactly(12))
    return json.loads(exactly(header)), exactly(payload)


def exactly(count: int) -> bytes:
    """Returns so many bytes of stdin; exits when it has ended."""
    got = b""
    while len(got) < count:
        data = os.read(0, count - len(got))
        if not data:
            raise SystemExit
        got += data
    return got


def frame(header: dict, payload: bytes = b"") -> bytes:
    """Returns one frame."""
    text = json.dumps(header).encode()
    return struct.pack("<4sII", b"SPI1", len(text), len(payload)) + text + payload


def answers(identity: int, label: int) -> bytes:
    """Returns a defence's reply for one picture."""
    return frame({"type": "answers", "id": identity, "labels": [label]})


def write(data: bytes, to: int = 1) -> None:
    """Writes all of it."""
    left = memoryview(data)
    while left:
        left = left[os.write(to, left) :]


def ready(name: str = "hostile", then: bytes = b"") -> None:
    """Reads `hello` and answers it, with more bytes in the same write."""
    header, _ = ask()
    write(frame({"type": "ready", "id": header["id"], "name": name}) + then)


def serve() -> None:
    """Answers every question honestly."""
    while True:
        header, payload = ask()
        if header["type"] == "classify":
            write(answers(header["id"], payload[0]))
