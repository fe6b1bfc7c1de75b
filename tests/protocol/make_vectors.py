"""Writes schemas/vectors/: frames byte by byte, for people who write a player or a decoder in another language.

Run `python tests/protocol/make_vectors.py` from anywhere. The bytes are made here from texts and lengths, never by our
own encoder, so they reveal a mistake that encoder and decoder share.
"""

import json
import struct
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "schemas" / "vectors"
PAYLOAD_LIMIT = 4096
HEADER_LIMIT = 65_536
CLASSES = 10
TASK = (
    '"task":{"name":"tiny","classes":["0","1","2","3","4","5","6","7","8","9"],"shape":[1,2,2],'
    '"budget":{"norm":"linf","epsilon":8.0}},"limits":{"ready_seconds":120.0,"step_seconds":10.0,"batch":64,'
    '"payload_bytes":4096,"memory_bytes":2147483648,"threads":1},"seed":7}'
)
ORCHESTRATOR, PLAYER = "orchestrator", "player"


def frame(header: str | bytes, payload: bytes = b"", *, header_length: int = -1, payload_length: int = -1) -> bytes:
    """Returns magic, both lengths (by default the true ones), header and payload."""
    text = header.encode() if isinstance(header, str) else header
    first = len(text) if header_length < 0 else header_length
    second = len(payload) if payload_length < 0 else payload_length
    return b"\x53\x50\x49\x31" + first.to_bytes(4, "little") + second.to_bytes(4, "little") + text + payload


def floats(*values: float) -> bytes:
    """Returns little-endian 32-bit floats."""
    return struct.pack(f"<{len(values)}f", *values)


@dataclass(frozen=True)
class Valid:
    """One whole frame that must be read."""

    name: str
    sender: str
    header: str
    payload: bytes = b""
    why: str = ""


@dataclass(frozen=True)
class Malformed:
    """Bytes that a player must not send. `question` names the valid vector that they answer.

    `level` is where the fault can be detected: `frame` by the decoder, `message` from the header alone or from header
    and payload, `session` only with knowledge of the question.
    """

    name: str
    reason: str
    data: bytes
    level: str = "frame"
    question: str = ""


EIGHT = bytes(range(8))
VALID = [
    Valid("hello-attack", ORCHESTRATOR, '{"id":1,"type":"hello","protocol":1,"role":"attack",' + TASK),
    Valid("hello-defence", ORCHESTRATOR, '{"id":1,"type":"hello","protocol":1,"role":"defence",' + TASK),
    Valid("ready", PLAYER, '{"type":"ready","id":1,"name":"smoothing","gives":["label","scores","gradient"]}'),
    Valid("ready-bare", PLAYER, '{"type":"ready","id":1}', why="name and gives may be left out"),
    Valid("ready-name-utf8", PLAYER, '{"type":"ready","id":1,"name":"Verteidigung Ä 防御"}', why="text is UTF-8"),
    Valid(
        "ready-name-escapes",
        PLAYER,
        '{"type":"ready","id":1,"name":"\\u00c4 \\ud83d\\udee1 \\"\\\\\\/\\b\\f\\n\\r\\t"}',
        why="every escape of JSON; a whole surrogate pair is one character",
    ),
    Valid(
        "ready-unknown-keys",
        PLAYER,
        '{"type":"ready","id":1,"version":"2.1","load":{"seconds":1.5e0,"ok":true,"more":[null,-0,-1e-3]}}',
        why="unknown keys are ignored",
    ),
    Valid("ready-whitespace", PLAYER, ' \t\r\n{ "type" : "ready" ,\n "id" : 1 } \n', why="JSON's white space"),
    Valid(
        "ready-longest-header",
        PLAYER,
        '{"type":"ready","id":1}'.ljust(HEADER_LIMIT),
        why="a header of exactly 65,536 bytes, most of them blanks",
    ),
    Valid(
        "ready-deepest",
        PLAYER,
        '{"type":"ready","id":1,"deep":' + "[" * 63 + "]" * 63 + "}",
        why="64 levels of arrays and objects",
    ),
    Valid(
        "perturb-two", ORCHESTRATOR, '{"id":2,"dtype":"u8","shape":[2,1,2,2],"type":"perturb","labels":[3,9]}', EIGHT
    ),
    Valid("perturb-unlabelled", ORCHESTRATOR, '{"id":2,"dtype":"u8","shape":[1,3,2,2],"type":"perturb"}', bytes(12)),
    Valid(
        "candidates-both", PLAYER, '{"type":"candidates","id":2,"dtype":"u8","shape":[2,1,2,2],"index":[1,0]}', EIGHT
    ),
    Valid(
        "candidates-one",
        PLAYER,
        '{"type":"candidates","id":2,"dtype":"u8","shape":[1,1,2,2],"index":[1]}',
        b"\xff\x00\x80\x7f",
        why="the work may be shared among several messages",
    ),
    Valid(
        "candidates-longest-payload",
        PLAYER,
        '{"type":"candidates","id":2,"dtype":"u8","shape":[1,1,64,64],"index":[0]}',
        bytes(4096),
        why="a payload of exactly payload_bytes; whether its shape is admissible is judged later",
    ),
    Valid(
        "classify-one", ORCHESTRATOR, '{"id":2,"dtype":"u8","shape":[1,1,2,2],"type":"classify"}', b"\x00\x01\xfe\xff"
    ),
    Valid("classify-two", ORCHESTRATOR, '{"id":2,"dtype":"u8","shape":[2,1,2,2],"type":"classify"}', EIGHT),
    Valid("answers-one", PLAYER, '{"type":"answers","id":2,"labels":[9]}'),
    Valid("answers-abstain", PLAYER, '{"type":"answers","id":2,"labels":[null,0]}', why="null abstains"),
    Valid(
        "answers-nulls", PLAYER, '{"type":"answers","id":2,"labels":[4],"dtype":null,"shape":null}', why="null: absent"
    ),
    Valid(
        "answers-scores",
        PLAYER,
        '{"type":"answers","id":2,"labels":[1],"dtype":"f32","shape":[1,10]}',
        floats(-1.5, 3.25, 0, 0, 0, 0, 0, 0, float("-inf"), 1e-38),
        why="f32 [n, classes], little-endian; infinity is a score",
    ),
    Valid(
        "gradient-one", ORCHESTRATOR, '{"id":2,"dtype":"u8","shape":[1,1,2,2],"type":"gradient","labels":[3]}', bytes(4)
    ),
    Valid(
        "gradients-one", PLAYER, '{"type":"gradients","id":2,"dtype":"f32","shape":[1,1,2,2]}', floats(0.5, -0.5, 0, 1)
    ),
    Valid(
        "query-decision",
        PLAYER,
        '{"type":"query","id":2,"dtype":"u8","shape":[1,1,2,2],"want":"decision","for":[0]}',
        bytes(4),
    ),
    Valid("reply-decision", ORCHESTRATOR, '{"id":2,"type":"reply","left":[4],"labels":[null]}'),
    Valid(
        "reply-scores",
        ORCHESTRATOR,
        '{"id":2,"type":"reply","left":[4],"dtype":"f32","shape":[1,10]}',
        floats(0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    ),
    Valid("reply-refused", ORCHESTRATOR, '{"id":2,"type":"reply","left":[0],"refused":"budget"}'),
    Valid("fault", PLAYER, '{"type":"fault","id":2,"code":"no-memory","text":"batch of 64 is too large for me"}'),
    Valid(
        "fault-brackets",
        PLAYER,
        '{"type":"fault","id":2,"code":"shape","text":"\\"got ' + "[{" * 40 + '"}',
        why="brackets in a text are not levels",
    ),
    Valid("bye", ORCHESTRATOR, '{"id":3,"type":"bye"}'),
]

CANDIDATES = '{"type":"candidates","id":2,"dtype":"u8",'
MALFORMED = [
    Malformed("magic-print", "magic", b"Loading model, please wait...\n"),
    Malformed("magic-one-byte", "magic", b"\x00"),
    Malformed("magic-fourth-byte", "magic", b"SPI2" + frame('{"type":"ready","id":1}')[4:]),
    Malformed("magic-lower-case", "magic", b"spi1" + frame('{"type":"ready","id":1}')[4:]),
    Malformed("magic-newline-first", "magic", b"\n" + frame('{"type":"ready","id":1}')),
    Malformed("header-length-over", "header-length", frame("", header_length=HEADER_LIMIT + 1)),
    Malformed("header-length-largest", "header-length", frame("", header_length=2**32 - 1)),
    Malformed(
        "header-length-big-endian",
        "header-length",
        b"SPI1\x00\x00\x00\x17\x00\x00\x00\x00" + b'{"type":"ready","id":1}',
    ),
    Malformed(
        "payload-length-over", "payload-length", frame('{"type":"ready","id":1}', payload_length=PAYLOAD_LIMIT + 1)
    ),
    Malformed("payload-length-largest", "payload-length", frame('{"type":"ready","id":1}', payload_length=2**32 - 1)),
    Malformed("json-empty", "json", frame("")),
    Malformed("json-not", "json", frame("ready")),
    Malformed("json-array", "json", frame('[{"type":"ready","id":1}]')),
    Malformed("json-string", "json", frame('"ready"')),
    Malformed("json-null", "json", frame("null")),
    Malformed("json-two-objects", "json", frame('{"type":"ready","id":1}{}')),
    Malformed("json-cut", "json", frame('{"type":"ready","id":1')),
    Malformed("json-single-quotes", "json", frame("{'type':'ready','id':1}")),
    Malformed("json-trailing-comma", "json", frame('{"type":"ready","id":1,}')),
    Malformed("json-comment", "json", frame('{"type":"ready","id":1/* one */}')),
    Malformed("json-key-twice", "json", frame('{"type":"ready","id":1,"id":1}')),
    Malformed("json-key-twice-inside", "json", frame('{"type":"ready","id":1,"x":{"a":1,"\\u0061":1}}')),
    Malformed("json-nan", "json", frame('{"type":"ready","id":1,"x":NaN}')),
    Malformed("json-infinity", "json", frame('{"type":"ready","id":1,"x":-Infinity}')),
    Malformed("json-number-too-large", "json", frame('{"type":"ready","id":1,"x":1e400}')),
    Malformed("json-integer-too-large", "json", frame('{"type":"ready","id":9007199254740993}')),
    Malformed("json-integer-too-small", "json", frame('{"type":"ready","id":1,"x":-9007199254740993}')),
    Malformed("json-integer-endless", "json", frame('{"type":"ready","id":1,"x":1' + "0" * 5000 + "}")),
    Malformed("json-leading-zero", "json", frame('{"type":"ready","id":01}')),
    Malformed("json-not-utf8", "json", frame(b'{"type":"ready","id":1,"name":"\xe9"}')),
    Malformed("json-overlong-utf8", "json", frame(b'{"type":"ready","id":1,"name":"\xc0\x80"}')),
    Malformed("json-utf16", "json", frame('{"type":"ready","id":1}'.encode("utf-16-le"))),
    Malformed("json-byte-order-mark", "json", frame(b'\xef\xbb\xbf{"type":"ready","id":1}')),
    Malformed("json-half-surrogate", "json", frame('{"type":"ready","id":1,"name":"\\ud83d"}')),
    Malformed("json-raw-newline", "json", frame('{"type":"ready","id":1,"name":"a\nb"}')),
    Malformed("json-too-deep", "json", frame('{"type":"ready","id":1,"deep":' + "[" * 64 + "]" * 64 + "}")),
    Malformed("json-too-deep-unclosed", "json", frame("[" * 60_000)),
    Malformed("type-missing", "type", frame('{"id":1}'), "message"),
    Malformed("type-unknown", "type", frame('{"type":"resign","id":1}'), "message"),
    Malformed("type-number", "type", frame('{"type":1,"id":1}'), "message"),
    Malformed("type-of-orchestrator", "type", frame('{"type":"bye","id":1}'), "message"),
    Malformed("header-id-missing", "header", frame('{"type":"ready"}'), "message"),
    Malformed("header-id-text", "header", frame('{"type":"ready","id":"1"}'), "message"),
    Malformed("header-id-fraction", "header", frame('{"type":"ready","id":1.0}'), "message"),
    Malformed("header-id-negative", "header", frame('{"type":"ready","id":-1}'), "message"),
    Malformed("header-id-true", "header", frame('{"type":"ready","id":true}'), "message"),
    Malformed("header-name-too-long", "header", frame('{"type":"ready","id":1,"name":"' + "x" * 201 + '"}'), "message"),
    Malformed("header-gives-unknown", "header", frame('{"type":"ready","id":1,"gives":["logits"]}'), "message"),
    Malformed("header-code-missing", "header", frame('{"type":"fault","id":1,"text":"no"}'), "message"),
    Malformed(
        "header-dtype-unknown", "header", frame('{"type":"gradients","id":2,"dtype":"f64","shape":[1]}'), "message"
    ),
    Malformed("header-shape-empty", "header", frame(CANDIDATES + '"shape":[],"index":[0]}'), "message"),
    Malformed("header-shape-zero", "header", frame(CANDIDATES + '"shape":[1,0,2,2],"index":[0]}'), "message"),
    Malformed(
        "header-shape-five-axes", "header", frame(CANDIDATES + '"shape":[1,1,1,1,1],"index":[0]}', b"\0"), "message"
    ),
    Malformed("header-index-empty", "header", frame(CANDIDATES + '"shape":[1,1,2,2],"index":[]}', bytes(4)), "message"),
    Malformed("header-label-fraction", "header", frame('{"type":"answers","id":2,"labels":[1.5]}'), "message"),
    Malformed("header-label-negative", "header", frame('{"type":"answers","id":2,"labels":[-1]}'), "message"),
    Malformed(
        "header-want-unknown",
        "header",
        frame('{"type":"query","id":2,"dtype":"u8","shape":[1],"want":"logits","for":[0]}', b"\0"),
        "message",
    ),
    Malformed(
        "header-for-missing",
        "header",
        frame('{"type":"query","id":2,"dtype":"u8","shape":[1],"want":"decision"}', b"\0"),
        "message",
    ),
    Malformed(
        "header-scores-without-shape",
        "header",
        frame('{"type":"answers","id":2,"labels":[1],"dtype":"f32"}'),
        "session",
        "classify-one",
    ),
    Malformed(
        "payload-size-short",
        "payload-size",
        frame(CANDIDATES + '"shape":[1,1,2,2],"index":[0]}', bytes(3)),
        "session",
        "perturb-two",
    ),
    Malformed(
        "payload-size-long",
        "payload-size",
        frame(CANDIDATES + '"shape":[1,1,2,2],"index":[0]}', bytes(5)),
        "session",
        "perturb-two",
    ),
    Malformed(
        "payload-size-overflow",
        "payload-size",
        frame(CANDIDATES + '"shape":[2147483647,2147483647,2147483647,2147483647],"index":[0]}'),
        "session",
        "perturb-two",
    ),
    Malformed(
        "payload-size-ready", "payload-size", frame('{"type":"ready","id":1}', b"\0"), "session", "hello-defence"
    ),
    Malformed(
        "payload-size-answers",
        "payload-size",
        frame('{"type":"answers","id":2,"labels":[1]}', b"\0"),
        "session",
        "classify-one",
    ),
    Malformed("id-earlier", "id", frame('{"type":"answers","id":1,"labels":[1]}'), "session", "classify-one"),
    Malformed("id-later", "id", frame('{"type":"answers","id":3,"labels":[1]}'), "session", "classify-one"),
    Malformed(
        "unexpected-answers-to-hello",
        "unexpected",
        frame('{"type":"answers","id":1,"labels":[1]}'),
        "session",
        "hello-defence",
    ),
    Malformed("unexpected-ready-again", "unexpected", frame('{"type":"ready","id":2}'), "session", "classify-one"),
    Malformed(
        "unexpected-answers-of-attack",
        "unexpected",
        frame('{"type":"answers","id":2,"labels":[1,1]}'),
        "session",
        "perturb-two",
    ),
    Malformed(
        "unexpected-query",
        "unexpected",
        frame('{"type":"query","id":2,"dtype":"u8","shape":[1,1,2,2],"want":"scores","for":[0]}', bytes(4)),
        "session",
        "perturb-two",
    ),
    Malformed(
        "index-twice",
        "index",
        frame(CANDIDATES + '"shape":[2,1,2,2],"index":[1,1]}', bytes(8)),
        "session",
        "perturb-two",
    ),
    Malformed(
        "index-beyond",
        "index",
        frame(CANDIDATES + '"shape":[1,1,2,2],"index":[2]}', bytes(4)),
        "session",
        "perturb-two",
    ),
    Malformed(
        "index-too-few",
        "index",
        frame(CANDIDATES + '"shape":[2,1,2,2],"index":[0]}', bytes(8)),
        "session",
        "perturb-two",
    ),
    Malformed("count-too-few", "count", frame('{"type":"answers","id":2,"labels":[1]}'), "session", "classify-two"),
    Malformed("count-too-many", "count", frame('{"type":"answers","id":2,"labels":[1,2]}'), "session", "classify-one"),
    Malformed("label-beyond", "label", frame('{"type":"answers","id":2,"labels":[10]}'), "session", "classify-one"),
    Malformed(
        "shape-scores-bytes",
        "shape",
        frame('{"type":"answers","id":2,"labels":[1],"dtype":"u8","shape":[1,10]}', bytes(10)),
        "session",
        "classify-one",
    ),
    Malformed(
        "shape-scores-classes",
        "shape",
        frame('{"type":"answers","id":2,"labels":[1],"dtype":"f32","shape":[1,9]}', bytes(36)),
        "session",
        "classify-one",
    ),
    Malformed(
        "shape-gradients-flat",
        "shape",
        frame('{"type":"gradients","id":2,"dtype":"f32","shape":[1,4]}', bytes(16)),
        "session",
        "gradient-one",
    ),
    Malformed(
        "nan-scores",
        "nan",
        frame('{"type":"answers","id":2,"labels":[1],"dtype":"f32","shape":[1,10]}', bytes(36) + b"\x00\x00\xc0\x7f"),
        "session",
        "classify-one",
    ),
    Malformed(
        "nan-gradients",
        "nan",
        frame('{"type":"gradients","id":2,"dtype":"f32","shape":[1,1,2,2]}', b"\x01\x00\x80\xff" + bytes(12)),
        "session",
        "gradient-one",
    ),
]

WHOLE = frame('{"type":"answers","id":2,"labels":[1]}', b"\x01\x02\x03\x04")
INCOMPLETE = {
    "cut-magic": 3,
    "cut-lengths": 11,
    "cut-header": 30,
    "cut-before-payload": len(WHOLE) - 4,
    "cut-payload": len(WHOLE) - 1,
}


def build() -> dict[str, bytes]:
    """Returns the content of every file in schemas/vectors/ by its name."""
    files: dict[str, bytes] = {}
    valid, malformed, incomplete = [], [], []
    for case in VALID:
        files[f"{case.name}.bin"] = frame(case.header, case.payload)
        entry = {
            "name": case.name,
            "file": f"{case.name}.bin",
            "sender": case.sender,
            "header": json.loads(case.header),
        }
        entry |= {"payload_hex": case.payload.hex() if len(case.payload) <= 64 else None}
        entry |= {"payload_size": len(case.payload), "payload_sha256": sha256(case.payload).hexdigest()}
        valid.append(entry | ({"why": case.why} if case.why else {}))
    for bad in MALFORMED:
        files[f"{bad.name}.bin"] = bad.data
        entry = {"name": bad.name, "file": f"{bad.name}.bin", "reason": bad.reason, "level": bad.level}
        malformed.append(entry | ({"question": bad.question} if bad.question else {}))
    for name, length in INCOMPLETE.items():
        files[f"{name}.bin"] = WHOLE[:length]
        incomplete.append({"name": name, "file": f"{name}.bin"})
    index = {"protocol": 1, "payload_limit": PAYLOAD_LIMIT, "classes": CLASSES}
    index |= {"valid": valid, "malformed": malformed, "incomplete": incomplete}
    files["vectors.json"] = (json.dumps(index, indent=1, ensure_ascii=False) + "\n").encode()
    return files


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, data in build().items():
        (FOLDER / name).write_bytes(data)
