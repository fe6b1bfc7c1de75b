"""Headers of what a player says, and the arrays in payloads."""

import numpy as np
import pytest

from orchestrator.errors import ProtocolFault
from orchestrator.protocol import messages
from orchestrator.protocol.frames import Frame
from orchestrator.protocol.messages import Capability, Dtype


def refused(header: object) -> ProtocolFault:
    """Returns the fault that a header ends in."""
    with pytest.raises(ProtocolFault) as caught:
        messages.parse_message(Frame(header))
    assert str(caught.value).isprintable()
    return caught.value


def test_unknown_keys_are_ignored():
    """A player may say more than version 1 knows."""
    message = messages.parse_message(Frame({"type": "ready", "id": 1, "name": "n", "gives": ["scores"], "since": 2}))
    assert message == messages.Ready(id=1, name="n", gives=[Capability.SCORES])


def test_unknown_types_are_a_fault():
    """A type that version 1 does not know, or no type at all, is the fault `type`."""
    for header in [{"type": "resign", "id": 1}, {"id": 1}, {"type": None, "id": 1}, {"type": [], "id": 1}]:
        assert refused(header).reason == "type"


def test_what_only_the_orchestrator_says_is_unknown_from_a_player():
    """A player cannot send `hello`."""
    assert refused({"type": "hello", "id": 1}).reason == "type"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "2"),
        ("id", 2.0),
        ("id", True),
        ("id", None),
        ("id", -1),
        ("id", 2**53 + 1),
        ("dtype", "f64"),
        ("dtype", 1),
        ("dtype", []),
        ("shape", []),
        ("shape", [1, 1, 1, 1, 1]),
        ("shape", [1, 0]),
        ("shape", [2**31]),
        ("shape", ["1"]),
        ("shape", "1"),
        ("shape", {"0": 1}),
        ("index", []),
        ("index", [-1]),
        ("index", [0.0]),
        ("index", [False]),
        ("index", [None]),
    ],
)
def test_fields_are_never_coerced(field, value):
    """A field of another JSON type, or out of range, is the fault `header`, and the message names it."""
    header = {"type": "candidates", "id": 2, "dtype": "u8", "shape": [1, 1, 2, 2], "index": [0]}
    assert messages.parse_message(Frame(header)).id == 2
    fault = refused(header | {field: value})
    assert fault.reason == "header"
    assert field in str(fault)


def test_a_hostile_type_cannot_reach_the_terminal():
    """What the player wrote is escaped and cut in the message."""
    fault = refused({"type": "\x1b[2J" + "x" * 60_000, "id": 1})
    assert len(str(fault)) < 500


def test_an_array_shares_the_payload():
    """Pixels are read in C order, without a copy, and cannot be written."""
    frame = Frame({}, bytes(range(12)))
    array = messages.payload_array(frame, Dtype.U8, [2, 3, 2])
    assert array.tolist() == np.arange(12).reshape(2, 3, 2).tolist()
    assert not array.flags.owndata
    assert not array.flags.writeable


def test_floats_are_little_endian():
    """The bytes 00 00 c0 3f are 1.5, on every machine."""
    assert messages.payload_array(Frame({}, b"\x00\x00\xc0\x3f"), Dtype.F32, [1]).tolist() == [1.5]


@pytest.mark.parametrize("payload", [b"", bytes(3), bytes(5), bytes(16)])
def test_a_payload_has_exactly_the_size_of_its_shape(payload):
    """A byte too few or too many is the fault `payload-size`; the message has both numbers."""
    with pytest.raises(ProtocolFault, match=f"payload of {len(payload)} bytes, u8 .* is 4") as caught:
        messages.payload_array(Frame({}, payload), Dtype.U8, [1, 1, 2, 2])
    assert caught.value.reason == "payload-size"


def test_a_shape_beyond_every_memory_is_only_a_fault():
    """The product of four sizes of 2^31 - 1 is computed exactly and refused."""
    with pytest.raises(ProtocolFault) as caught:
        messages.payload_array(Frame({}), Dtype.F32, [2**31 - 1] * 4)
    assert caught.value.reason == "payload-size"
