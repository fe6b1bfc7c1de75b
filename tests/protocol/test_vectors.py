"""The test vectors for other languages, read by our own decoder: whole, and byte by byte."""

import json
from hashlib import sha256
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from orchestrator.errors import ProtocolFault
from orchestrator.protocol import frames, messages
from orchestrator.protocol.messages import Role
from orchestrator.protocol.session import Session

SCHEMAS = Path(__file__).parents[2] / "schemas"
INDEX = json.loads((SCHEMAS / "vectors" / "vectors.json").read_text(encoding="utf-8"))
SCHEMA = json.loads((SCHEMAS / "messages.schema.json").read_text(encoding="utf-8"))


def each(kind: str) -> pytest.MarkDecorator:
    """Returns a parameter `case` for every vector of one kind."""
    return pytest.mark.parametrize("case", INDEX[kind], ids=lambda case: case["name"])


def content(case: dict) -> bytes:
    """Returns a vector's bytes."""
    return (SCHEMAS / "vectors" / case["file"]).read_bytes()


def cuts(data: bytes) -> list[list[bytes]]:
    """Returns the data whole, and byte by byte."""
    return [[data], [data[at : at + 1] for at in range(len(data))]]


def decode(pieces: list[bytes]) -> list[frames.Frame]:
    """Returns the frames in the pieces; raises the ProtocolFault they end in."""
    decoder = frames.FrameDecoder(INDEX["payload_limit"])
    found = []
    for piece in pieces:
        decoder.feed(piece)
        found += iter(decoder.next_frame, None)
    return found


def side(sender: str) -> jsonschema.Draft202012Validator:
    """Returns the validator for the headers of one side."""
    name = {"orchestrator": "FromOrchestrator", "player": "FromPlayer"}[sender]
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


def asked(question: str, hello: dict) -> Session:
    """Returns a session that has just said the valid vector of that name, word for word."""
    [case] = [case for case in INDEX["valid"] if case["name"] == question]
    header = case["header"]
    attack = header["type"] == "perturb" or header.get("role") == "attack"
    session = Session(Role.ATTACK if attack else Role.DEFENCE, INDEX["classes"], INDEX["payload_limit"])
    said = session.ask_hello(**hello)
    if header["type"] != "hello":
        list(session.feed(frames.encode_frame({"type": "ready", "id": 1, "gives": ["gradient"]})))
        pixels = np.frombuffer(bytes.fromhex(case["payload_hex"]), np.uint8).reshape(header["shape"])
        ask = {"perturb": session.ask_perturb, "classify": session.ask_classify, "gradient": session.ask_gradient}
        said = ask[header["type"]](pixels, *([header["labels"]] if "labels" in header else []))
    assert said == content(case)
    return session


def test_the_vectors_are_in_step_with_their_script(script):
    """`python tests/protocol/make_vectors.py` would change nothing, and no file is left over."""
    files = {path.name: path.read_bytes() for path in (SCHEMAS / "vectors").iterdir()}
    assert files == script("make_vectors.py")["build"]()


def test_there_are_enough_vectors():
    """Names occur once; every kind is well covered."""
    names = [case["name"] for kind in ("valid", "malformed", "incomplete") for case in INDEX[kind]]
    assert len(set(names)) == len(names)
    assert len(INDEX["valid"]) >= 12
    assert len(INDEX["malformed"]) >= 25


@each("valid")
def test_valid_vectors_are_read(case):
    """Each valid vector is one frame with the header and payload that the index says, however it is cut."""
    for pieces in cuts(content(case)):
        [frame] = decode(pieces)
        assert frame.header == case["header"]
        assert len(frame.payload) == case["payload_size"]
        assert sha256(frame.payload).hexdigest() == case["payload_sha256"]
        assert case["payload_hex"] in {None, bytes(frame.payload).hex()}


@each("valid")
def test_valid_vectors_fit_the_schema(case):
    """The schema admits each valid header for its sender, and for nobody else."""
    assert side(case["sender"]).is_valid(case["header"])
    other = "player" if case["sender"] == "orchestrator" else "orchestrator"
    assert not side(other).is_valid(case["header"])
    if case["sender"] == "player":
        assert messages.parse_message(frames.Frame(case["header"])).type == case["header"]["type"]


@each("malformed")
def test_malformed_vectors_end_in_their_reason(case, hello):
    """Each malformed vector ends in the fault that the index says, at the level it says, however it is cut."""
    for pieces in cuts(content(case)):
        if case["level"] == "frame":
            with pytest.raises(ProtocolFault) as caught:
                decode(pieces)
        else:
            [frame] = decode(pieces)
            if case["level"] == "message":
                with pytest.raises(ProtocolFault) as caught:
                    messages.parse_message(frame)
            else:
                assert messages.parse_message(frame)
                session = asked(case["question"], hello)
                with pytest.raises(ProtocolFault) as caught:
                    list(map(list, map(session.feed, pieces)))
        assert caught.value.reason == case["reason"]


@each("malformed")
def test_the_schema_refuses_what_the_header_alone_gives_away(case):
    """What is noticed from the header alone, the schema refuses too; but 1.0 is an integer to JSON Schema."""
    if case["level"] == "frame":
        return
    [frame] = decode([content(case)])
    expected = case["level"] == "session" or case["name"] == "header-id-fraction"
    assert side("player").is_valid(frame.header) == expected


@each("incomplete")
def test_incomplete_vectors_are_waited_for(case):
    """A frame that is cut is no fault: the decoder waits for the rest."""
    for pieces in cuts(content(case)):
        assert decode(pieces) == []


def test_valid_vectors_can_follow_each_other():
    """All valid vectors in one stream come out in order."""
    stream = b"".join(map(content, INDEX["valid"]))
    assert [frame.header for frame in decode([stream])] == [case["header"] for case in INDEX["valid"]]
