"""Bytes to frames and back."""

import struct
import time
import tracemalloc

import pytest

from orchestrator.errors import ProtocolFault
from orchestrator.protocol import frames
from orchestrator.protocol.frames import HEADER_LIMIT, PAYLOAD_LIMIT, FrameDecoder, encode_frame, strict_json


def raw(header: bytes, payload: bytes = b"", lengths: tuple[int, int] | None = None) -> bytes:
    """Returns a frame made without the encoder, with false lengths where they are given."""
    return b"SPI1" + struct.pack("<II", *(lengths or (len(header), len(payload)))) + header + payload


def fault_of(data: bytes, payload_limit: int = 100) -> ProtocolFault:
    """Returns the fault in which the bytes end."""
    decoder = FrameDecoder(payload_limit)
    decoder.feed(data)
    with pytest.raises(ProtocolFault) as caught:
        list(iter(decoder.next_frame, None))
    return caught.value


def test_a_frame_is_magic_two_lengths_header_and_payload():
    """The encoder writes the bytes that the specification draws."""
    assert encode_frame({"type": "bye", "id": 3}, b"ab") == (
        b"SPI1\x15\x00\x00\x00\x02\x00\x00\x00" + b'{"type":"bye","id":3}' + b"ab"
    )


def test_header_text_is_utf8_and_not_escaped():
    """Text outside ASCII travels as UTF-8."""
    assert "Ä防".encode() in encode_frame({"name": "Ä防"})


def test_encoder_refuses_a_header_over_the_limit():
    """A header of 65,537 bytes is refused, one of 65,536 is written."""
    assert len(encode_frame({"a": "x" * (HEADER_LIMIT - 8)})) == 12 + HEADER_LIMIT
    with pytest.raises(ValueError, match="65537 bytes, limit is 65536"):
        encode_frame({"a": "x" * (HEADER_LIMIT - 7)})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_encoder_refuses_what_is_not_json(value):
    """NaN, Infinity and half a surrogate pair are never sent."""
    with pytest.raises(ValueError, match=r"JSON|surrogates"):
        encode_frame({"a": value})


def test_encoder_refuses_views_of_anything_but_bytes():
    """A view of wider items would announce its items for its bytes."""
    with pytest.raises(ValueError, match="flat view of bytes"):
        encode_frame({}, memoryview(bytes(8)).cast("I"))
    assert encode_frame({}, memoryview(b"abcd")).endswith(b"{}abcd")


def test_encoder_refuses_a_payload_that_u32_cannot_announce():
    """The longest payload is 2^32 - 1 bytes."""

    class Long(bytes):
        def __len__(self) -> int:
            return PAYLOAD_LIMIT + 1

    with pytest.raises(ValueError, match="4294967296 bytes, limit is 4294967295"):
        encode_frame({}, Long())


def test_decoder_waits_for_the_last_byte():
    """A frame appears with its last byte and not before, and pending counts what waits."""
    data = raw(b'{"type":"x"}', b"abc")
    decoder = FrameDecoder(3)
    for number, value in enumerate(data, start=1):
        assert decoder.next_frame() is None
        assert decoder.pending_bytes == number - 1
        decoder.feed(bytes([value]))
    frame = decoder.next_frame()
    assert (frame.header, bytes(frame.payload), decoder.pending_bytes) == ({"type": "x"}, b"abc", 0)


def test_frames_in_one_piece_come_out_one_by_one():
    """A read that holds several frames and the beginning of another loses nothing."""
    decoder = FrameDecoder(10)
    decoder.feed(raw(b'{"a":1}', b"one") + raw(b'{"a":2}') + raw(b'{"a":3}', b"three") + b"SPI")
    found = [(frame.header["a"], bytes(frame.payload)) for frame in iter(decoder.next_frame, None)]
    assert found == [(1, b"one"), (2, b""), (3, b"three")]
    assert decoder.pending_bytes == 3


def test_an_earlier_payload_survives_later_frames():
    """A payload that shares the decoder's buffer is not written over."""
    decoder = FrameDecoder(10)
    decoder.feed(raw(b"{}", b"first"))
    first = decoder.next_frame().payload
    decoder.feed(raw(b"{}", b"again"))
    decoder.next_frame()
    assert bytes(first) == b"first"
    assert memoryview(first).readonly


@pytest.mark.parametrize("data", [b"\n", b"S\n", b"SP1", b"SPI2", b"spi1" + bytes(8), b"Epoch 1/10: loss 0.3\n"])
def test_a_stray_print_is_named(data):
    """The commonest fault, text on stdout, is noticed at its first byte and shown escaped."""
    fault = fault_of(data)
    assert fault.reason == "magic"
    assert "did the player print to stdout?" in str(fault)
    assert str(fault).isprintable()


def test_lengths_are_checked_before_the_rest_arrives():
    """Twelve bytes are enough to refuse a frame that is too long; the message has both numbers."""
    assert fault_of(raw(b"", b"", (HEADER_LIMIT + 1, 0))).reason == "header-length"
    fault = fault_of(raw(b"", b"", (2, 101)))
    assert (fault.reason, str(fault)) == ("payload-length", "payload of 101 bytes, limit is 100")


def test_a_giant_announcement_takes_no_memory():
    """An announced payload of 4 GiB costs what was fed and nothing more, byte by byte and in large pieces."""
    decoder = FrameDecoder(PAYLOAD_LIMIT)
    decoder.feed(raw(b"", b"", (2, PAYLOAD_LIMIT)))
    pieces = [b"{", b"}", *[bytes(1000)] * 100, bytes(1 << 20)]
    fed = sum(map(len, pieces))
    tracemalloc.start()
    try:
        for piece in pieces:
            decoder.feed(piece)
            assert decoder.next_frame() is None
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1.2 * fed + 10_000
    assert peak < 2.4 * fed + 10_000


def test_a_dead_decoder_takes_nothing_more():
    """After a fault nothing is read and nothing is kept."""
    decoder = FrameDecoder(10)
    decoder.feed(b"print")
    with pytest.raises(ProtocolFault):
        decoder.next_frame()
    decoder.feed(raw(b"{}") * 1000)
    assert decoder.pending_bytes == 0
    with pytest.raises(ProtocolFault) as caught:
        decoder.next_frame()
    assert caught.value.reason == "after-fault"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":9007199254740992}', {"a": 2**53}),
        ('{"a":-9007199254740992}', {"a": -(2**53)}),
        ('{"a":1e308}', {"a": 1e308}),
        ('{"a":1e-999}', {"a": 0.0}),
        ('{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        ('{"a":"' + "[" * 500 + '"}', {"a": "[" * 500}),
        ('{"a":"\\"' + "{" * 500 + '\\\\"}', {"a": '"' + "{" * 500 + "\\"}),
        ('{"a":[' + "[]," * 100 + "[]]}", {"a": [[]] * 101}),
    ],
)
def test_json_at_the_edge_is_read(text, value):
    """What lies just inside the limits is read."""
    assert strict_json(text) == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a":1,"a":2}', "twice"),
        ('{"a":NaN}', "NaN is not JSON"),
        ('{"a":-Infinity}', "-Infinity is not JSON"),
        ('{"a":9007199254740993}', "beyond 2"),
        ('{"a":' + "9" * 60_000 + "}", "beyond 2"),
        ('{"a":1e309}', "beyond the range"),
        ('{"a":"\\udc00"}', "surrogates"),
        ('{"\\ud800":1}', "surrogates"),
        ("[" * 65 + "]" * 65, "more than 64"),
        ("[" * 60_000, "more than 64"),
        ('{"a":' * 60_000, "more than 64"),
        ('{"a":"x', "Unterminated"),
    ],
)
def test_json_beyond_the_edge_is_refused(text, complaint):
    """Each rule of strict JSON has its message."""
    with pytest.raises(ValueError, match=complaint):
        strict_json(text)


@pytest.mark.parametrize("unit", ['\\"', '"', "\\", "[", "]", '"[', '"\\u0041', "1", "1e", '{"":', " "])
def test_no_header_takes_long(unit):
    """A header of 65,536 bytes is judged within a quarter of a second of processor time, whatever it repeats."""
    text = ("[" * 65 + '"' + unit * HEADER_LIMIT)[:HEADER_LIMIT].encode()
    begun = time.process_time()
    assert fault_of(raw(text)).reason == "json"
    assert time.process_time() - begun < 0.25


def test_nothing_of_the_player_reaches_a_message_unescaped():
    """Control characters in a broken header do not reach the message."""
    for header in [b'{"\x1b[2J":1,"\x1b[2J":1}', b"\x1b]0;owned\x07", b'{"a":\x1b}', b"\xff\xfe"]:
        assert str(fault_of(raw(header))).isprintable()


def test_the_depth_is_exact():
    """Sixty-four levels are read, however many arrays lie beside each other in them; sixty-five are not."""
    around, inside = "[" * (frames.NESTING_LIMIT - 1), "]" * (frames.NESTING_LIMIT - 1)
    assert strict_json(f"{around}[],{{}},[]{inside}")
    with pytest.raises(ValueError, match="more than 64 arrays and objects in each other"):
        strict_json(f"[{around}[],{{}},[]{inside}]")
